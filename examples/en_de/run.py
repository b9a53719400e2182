#!/usr/bin/env python3
"""Train and decode a blockwise model on real English-German text, through fairseq's commands.

    python examples/en_de/run.py                 # shortened: about ten minutes on 2 cores
    python examples/en_de/run.py --size full     # about two hours

Every command is printed. Stages with existing results in --workdir are skipped, so an interrupted
run can be resumed.
"""

import argparse
import re
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.table import Run, read_run, show_table

METHODS = {
    "fairseq --beam 1": ["--decoding", "fairseq", "--beam", "1"],
    "greedy": ["--decoding", "greedy", "--beam", "1"],
    "blockwise": ["--decoding", "blockwise", "--beam", "1"],
}


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        run_recipe(args)


def run_recipe(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the table."""
    recipe = en_de.asked_for(en_de.RECIPES[args.size], args)
    work = arguments.sized_workdir(args, "en_de")
    en_de.prepare(work, recipe)
    en_de.train_baseline(work, recipe)
    en_de.distil(work)
    frozen = train_blockwise(work, recipe, args.block_heads)
    runs = decode(work, recipe, frozen)
    show_table(
        work, runs, f"{recipe.test_sentences} test sentences, batch size 1, {args.size} recipe"
    )


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    arguments.add_size(parser, "en_de", en_de.RECIPES)
    parser.add_argument(
        "--block-heads",
        choices=["parallel", "sequential"],
        default="parallel",
        help="the paper's heads, or heads that read the tokens before theirs (default: parallel)",
    )
    en_de.add_autocast_option(parser)
    return parser.parse_args()


def train_blockwise(work: Path, recipe: en_de.Recipe, block_heads: str) -> str:
    """Train four heads on the frozen baseline; return the name of their folder."""
    name = "frozen" if block_heads == "parallel" else f"frozen_{block_heads}"
    folder, data = work / name, work / "distilled" / "data"
    base = work / "baseline" / "checkpoint_last.pt"
    commands.stage(
        folder,
        [*en_de.train_command(data, folder, recipe, begins_with=base), *recipe.blockwise_options]
        + [*en_de.heads_options(4, block_heads), "--freeze-base"],
    )
    return name


def decode(work: Path, recipe: en_de.Recipe, frozen: str) -> list[Run]:
    """Decode the same sentences with every method, in alternating rounds.

    Args:
        frozen: the folder of the baseline with heads.
    """
    rows = [("baseline", "fairseq --beam 1"), (frozen, "greedy"), (frozen, "blockwise")]
    results = []
    for number in range(1, recipe.rounds + 1):
        for model, method in rows:
            label = re.sub(r"\W+", "-", f"{model} {method} {number}")
            output = work / "decoded" / label
            if not commands.finished(output):
                generate(work, model, output, METHODS[method])
            results.append(read_run(output, model, method, en_de.TEST_TEXT))
    return results


def generate(work: Path, model: str, output: Path, options: list[str]) -> None:
    """Run fairseq-generate with one method on the test set, one sentence at a time."""
    commands.generate_into(
        output,
        [
            work / "data", *en_de.plugin_options(), *options,
            *commands.statistics_options(options, output),
            "--path", work / model / "checkpoint_last.pt", "--batch-size", "1",
            *en_de.test_options(work),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
