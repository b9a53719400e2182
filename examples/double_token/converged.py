#!/usr/bin/env python3
"""Table 2 of Imamura and Sumita (WAT 2020), for models that start from a trained one.

    python examples/double_token/converged.py --cpu-autocast    # an hour per model on one core

All models are initialised with the bundled model of ../en_de, and trained on its translations of
the training data and of crossed sentences (../common/crossing.py). They differ only in the order of
tokens. With ``--seeds 1 2 3``, each is trained three times. Every command is printed. Stages with
existing results are skipped, so an interrupted run can be resumed.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.averaging import train_and_average
from examples.common.deeper import rewrite
from examples.common.training_text import with_crossed, without_references
from examples.double_token.comparison import show_seeds
from examples.double_token.models import (
    BASELINE,
    DOUBLE_BIDIRECTIONAL,
    DOUBLE_L2R,
    DOUBLE_R2L,
    METHODS,
    SINGLE_R2L,
    Method,
    Model,
    beam_search,
    own_generator_of_fairseq,
)
from examples.double_token.more_sources import without_heads
from examples.double_token.run import decode_all, show_tables
from examples.double_token.trainer import command, training

FIRST_MODEL = en_de.MODEL / "checkpoint.pt"
N_CROSSED = 100_000
NETWORK = en_de.network(256, 512, 5, 2)
TRAINING = training(3000, 1.5e-3, 300, 3400, dropout=0.1)
SAVE_EVERY = 50
# The initial model itself, without further training.
SINGLE_L2R = Model("single_l2r", "translation", [], [])
LEARNERS = (DOUBLE_BIDIRECTIONAL, SINGLE_R2L, DOUBLE_L2R, DOUBLE_R2L)


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        compare(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = en_de.recipe_parser(__doc__, "double_token_converged")
    arguments.add_rounds(parser)
    arguments.add_seeds(parser)
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the tables."""
    work = args.workdir
    recipe = en_de.asked_for(replace(en_de.RECIPES["full"], network=NETWORK), args)
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    without_references(work, "sources", partial(with_crossed, n=N_CROSSED, seed=13))
    en_de.distil(work, FIRST_MODEL, data="sources")
    base = work / SINGLE_L2R.name / "averaged.pt"
    base.parent.mkdir(exist_ok=True)
    rewrite(FIRST_MODEL, base, without_heads)
    by_seed = []
    for seed in args.seeds:
        for model in LEARNERS:
            train(work, recipe, of_seed(model, seed), base)
        # The speed is that of the first seed's models.
        by_seed.append(decode_all(work, methods(seed), 1 if by_seed else args.rounds))
    others = [show_seeds(by_seed)] if len(by_seed) > 1 else []
    show_tables(work, by_seed[0], others)


def train(work: Path, recipe: en_de.Recipe, model: Model, base: Path) -> None:
    """Train one model, and average its last checkpoints."""
    data, folder = work / "distilled" / "data", work / model.name
    chosen = command(data, folder, recipe, model, TRAINING, SAVE_EVERY, base)
    train_and_average(folder, chosen)


def our_beam_search(width: int) -> list:
    """The options for the initial model, whose task uses fairseq's generator by default."""
    return beam_search(width, "--decoding", "beam")


def of_seed(model: Model, seed: int) -> Model:
    """The same model, trained with a seed."""
    return replace(model, name=f"{model.name}-{seed}", seed=seed)


def methods(seed: int) -> list[Method]:
    """The rows of the table."""
    return [
        Method(BASELINE, SINGLE_L2R, our_beam_search),
        Method(f"{BASELINE}, by fairseq", SINGLE_L2R, own_generator_of_fairseq, False),
        *(
            replace(method, model=of_seed(method.model, seed))
            for method in METHODS
            if method.model in LEARNERS
        ),
    ]


if __name__ == "__main__":
    main()
