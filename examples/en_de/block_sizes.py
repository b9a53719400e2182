#!/usr/bin/env python3
"""Table 1 of Stern et al. (2018), with top-k acceptance and minimum blocks, on English-German text.

    python examples/en_de/block_sizes.py                                  # all: half a day
    python examples/en_de/block_sizes.py --block-sizes 4 --settings both  # one cell

It begins with the baseline and the distilled data of ``run.py --size full``, and makes them if
they are not there. Every command is printed as it would be typed; what exists is not made again.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

import torch
from run import (
    RECIPES,
    ROOT,
    Recipe,
    add_autocast_option,
    asked_for,
    distil,
    finished,
    generate_into,
    heads_options,
    mark_finished,
    plugin_options,
    prepare,
    resumable,
    run,
    schedule,
    test_options,
    train_baseline,
    train_command,
)
from table import markdown, read_lines, read_run

sys.path.insert(0, str(ROOT))
import fairseq_fastdec  # noqa: E402,F401  (lets torch load fairseq's checkpoints)

LARGEST = 8
BLOCK_SIZES = (2, 4, LARGEST)
# Heads on a frozen base learn fast; what they have learned is where fine-tuning begins. The rate
# falls as if for 2,500 updates.
FROZEN = [*schedule(2000, 2e-3, 100, 2500), "--max-update", "1400", "--dropout", "0.1"]
# The base learns slowly, and p_1 has the largest share: what it forgets, no head can make good.
FINE_TUNED = [*schedule(2000, 2e-4, 100, 1500), "--dropout", "0.1", "--head-decay", "0.65"]


class Setting(NamedTuple):
    """A column of the table: what is trained, on which targets."""

    data: str
    fine_tuned: bool


SETTINGS = {
    "regular": Setting("data", False),
    "distillation": Setting("distilled/data", False),
    "fine-tuning": Setting("data", True),
    "both": Setting("distilled/data", True),
}
ACCEPTANCE: Dict[str, List[str]] = {
    "exact": [],
    "top 2": ["--acceptance", "topk", "--acceptance-topk", "2"],
    "top 3": ["--acceptance", "topk", "--acceptance-topk", "3"],
    "at least 2": ["--min-block-size", "2"],
    "at least 3": ["--min-block-size", "3"],
}


def main() -> None:
    """All stages."""
    args = parse_args()
    with resumable():
        make_table(args)


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--block-sizes", type=int, nargs="+", choices=BLOCK_SIZES, default=BLOCK_SIZES, metavar="K"
    )
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--workdir", type=Path, default=ROOT / "work" / "en_de_full")
    add_autocast_option(parser)
    return parser.parse_args()


def make_table(args: argparse.Namespace) -> None:
    """From raw text to the table."""
    work, recipe = args.workdir, asked_for(RECIPES["full"], args)
    work.mkdir(parents=True, exist_ok=True)
    prepare(work, recipe)
    train_baseline(work, recipe)
    distil(work)
    rows = []
    for block_size in args.block_sizes:
        for name in args.settings:
            model = train(work, recipe, SETTINGS[name], block_size)
            for acceptance in acceptances(block_size) if name == "both" else ["exact"]:
                rows.append(row_of(work, model, block_size, name, acceptance))
    text = markdown(f"{recipe.test_sentences} test sentences", rows)
    print("\n" + text)
    (work / "block_sizes.md").write_text(text + "\n", encoding="utf-8")


def acceptances(block_size: int) -> List[str]:
    """All but minimum blocks that are larger than blocks can be."""
    return [
        name
        for name, options in ACCEPTANCE.items()
        if "--min-block-size" not in options or int(options[-1]) <= block_size
    ]


def train(work: Path, recipe: Recipe, setting: Setting, block_size: int) -> Path:
    """The checkpoint of a cell."""
    frozen = train_frozen(work, recipe, setting.data)
    if not setting.fine_tuned:
        return frozen
    return train_fine_tuned(work, recipe, setting.data, block_size, frozen)


def train_frozen(work: Path, recipe: Recipe, data: str) -> Path:
    """Heads on a frozen base, the most that any row needs: they do not know of each other."""
    folder = work / f"frozen-{Path(data).parts[0]}"
    if not finished(folder):
        baseline = work / "baseline" / "checkpoint_last.pt"
        run(
            [*train_command(work / data, folder, recipe), *FROZEN, *heads_options(LARGEST)]
            + ["--freeze-base", "--finetune-from-model", baseline]
        )
        mark_finished(folder)
    return folder / "checkpoint_last.pt"


def train_fine_tuned(work: Path, recipe: Recipe, data: str, block_size: int, frozen: Path) -> Path:
    """The base, too."""
    folder = work / f"fine-tuned-{Path(data).parts[0]}-{block_size}"
    if not finished(folder):
        start = frozen.with_name(f"first_{block_size}.pt")
        write_first_heads(frozen, block_size, start)
        run(
            [*train_command(work / data, folder, recipe), *FINE_TUNED, *heads_options(block_size)]
            + ["--finetune-from-model", start]
        )
        mark_finished(folder)
    return folder / "checkpoint_last.pt"


def write_first_heads(checkpoint: Path, block_size: int, output: Path) -> None:
    """A checkpoint of :func:`heads_options` with its first heads only."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    n_learned = block_size - 1  # p_1 is the base itself
    for name, parameter in state["model"].items():
        if ".heads." in name:
            share = parameter.size(0) // (LARGEST - 1) * n_learned
            state["model"][name] = parameter[:share].clone()
    state["cfg"]["model"].block_size = block_size
    torch.save(state, output)


def row_of(
    work: Path, model: Path, block_size: int, setting: str, acceptance: str
) -> Dict[str, str]:
    """Decode the test set; batches, since only BLEU and blocks are looked at."""
    label = f"{setting} {block_size} {acceptance}".replace(" ", "-")
    output = work / "decoded" / label
    if not finished(output):
        generate_into(
            output,
            [
                work / "data", *plugin_options(), "--path", model, *test_options(work),
                "--decoding", "blockwise", "--decoding-block-size", block_size,
                *ACCEPTANCE[acceptance], "--beam", "1", "--batch-size", "32",
                "--decoding-stats", output / "stats.jsonl",
            ],
        )  # fmt: skip
    sentences = [json.loads(line) for line in read_lines(output / "stats.jsonl")]
    blocks = [size for sentence in sentences for size in sentence["blocks"]]
    return {
        "k": str(block_size),
        "setting": setting,
        "acceptance": acceptance,
        "BLEU": f"{read_run(output, setting, acceptance).bleu:.2f}",
        "mean accepted block size": f"{sum(blocks) / len(blocks):.2f}",
    }


if __name__ == "__main__":
    main()
