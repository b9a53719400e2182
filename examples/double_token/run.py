#!/usr/bin/env python3
"""Train and compare the models of Imamura and Sumita (WNGT 2020) on real English-German text.

    python examples/double_token/run.py                 # shortened: about an hour on 2 cores
    python examples/double_token/run.py --size full     # a night

Prints their Table 2 (quality and speed) and Table 3 (precision at both ends of the sentence). Every
command is printed as it would be typed. A stage whose result exists is skipped, so that an
interrupted run goes on where it was; --workdir names where results are kept.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "en_de"))

import run as en_de  # noqa: E402
from models import MASK_PREDICT, MODELS, Model  # noqa: E402

N_AVERAGED = 10


@dataclass
class Training:
    """How long and how fast a model learns."""

    updates: int
    options: List[str]


def training(max_tokens: int, lr: float, warmup: int, updates: int, dropout: float) -> Training:
    """Options of fairseq-train."""
    options = en_de.schedule(max_tokens, lr, warmup, updates) + ["--dropout", str(dropout)]
    return Training(updates, options)


@dataclass
class Size:
    """What differs between the sizes.

    Data, network and training are those of ``../en_de``. Mask-Predict learns more slowly and gets
    more updates, as in the paper.
    """

    recipe: en_de.Recipe
    autoregressive: Training
    mask_predict: Training
    save_every: int


SIZES = {
    "quick": Size(
        en_de.RECIPES["quick"],
        training(800, 2e-3, 200, 1500, dropout=0),
        training(800, 1e-3, 400, 3000, dropout=0),
        save_every=20,
    ),
    "full": Size(
        en_de.RECIPES["full"],
        training(3000, 2e-3, 400, 6000, dropout=0.2),
        training(3000, 1e-3, 800, 12000, dropout=0.2),
        save_every=50,
    ),
}


def main() -> None:
    """All stages."""
    args = parse_args()
    try:
        compare(args)
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command goes on from here")


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="quick")
    parser.add_argument(
        "--workdir", type=Path, help="default: work/double_token_SIZE in the repository"
    )
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """From raw text to the tables."""
    size = SIZES[args.size]
    work = args.workdir or en_de.ROOT / "work" / f"double_token_{args.size}"
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, size.recipe)
    for model in MODELS:
        train(work, size, model)


def train(work: Path, size: Size, model: Model) -> None:
    """One model; the checkpoints of its last updates are kept."""
    folder = work / model.name
    if en_de.finished(folder):
        return
    chosen = size.mask_predict if model is MASK_PREDICT else size.autoregressive
    en_de.run(
        [
            *en_de.train_command(
                work / "data", folder, size.recipe, model.task, size.save_every, N_AVERAGED
            ),
            *model.order, *model.training, *chosen.options,
            # Before, fairseq-train validates and saves at most at the ends of epochs.
            "--validate-after-updates", chosen.updates - N_AVERAGED * size.save_every,
        ]
    )  # fmt: skip
    en_de.mark_finished(folder)


if __name__ == "__main__":
    main()
