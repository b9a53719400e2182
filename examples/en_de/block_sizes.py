#!/usr/bin/env python3
"""Table 1 of Stern et al. (2018), with top-k acceptance and minimum blocks, on English-German text.

    python examples/en_de/block_sizes.py                                # two hours on two cores
    python examples/en_de/block_sizes.py --size medium --cpu-autocast   # four hours on two cores
    python examples/en_de/block_sizes.py --block-sizes 4 --settings both    # one cell

As in the paper, each cell has a model of its own: the pre-trained base with k new heads, trained
on the training data or on a teacher's translations for as many updates as the base, while the base
is frozen or fine-tuned. With k = 1, the columns of fine-tuned models have the base after as many
more updates. Models of different seeds share nothing but the teacher. Fine-tuned models are decoded
with all kinds of acceptance, the others with exact acceptance. ``--heads`` adds this package's loss
and heads.

Every command is printed. Models are trained on all cores, each with one thread. An interrupted run
is resumed, and existing results are not computed again. Cells are written to
``benchmarks/block_sizes.json``, in the places of those of the same seed, so seeds can be trained
one after the other, and the tables of ``--size medium`` to examples/RESULTS.md. ``--rounds``
measures Figure 4.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import fairseq_fastdec  # noqa: F401  (lets torch load fairseq's checkpoints)
from examples.common import arguments, commands, en_de, significance
from examples.common.figures import add_figures
from examples.common.table import Run, checksum, mean_block_size, read_run
from examples.common.training_text import read
from examples.en_de import figure_4, table_1
from examples.en_de.cells import ACCEPTANCE, BLOCK_SIZES, HEADS, SETTINGS, Cell
from fairseq_fastdec.translating.command_line import positive

FIGURES = commands.ROOT / "benchmarks" / "block_sizes.json"
KEY = ("size", *Cell._fields)  # of a row
# The beam search of Vaswani et al. (2017), used by the paper's teacher.
BEAM_SEARCH = ["--decoding", "beam", "--beam", "4", "--lenpen", "0.6"]
TEACHERS_SEED = 4


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        make_tables(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    arguments.add_size(parser, "block_sizes", en_de.RECIPES)
    en_de.add_autocast_option(parser)
    parser.add_argument(
        "--block-sizes", type=int, nargs="+", choices=BLOCK_SIZES, default=BLOCK_SIZES, metavar="K"
    )
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument(
        "--heads",
        nargs="+",
        choices=HEADS,
        default=["paper"],
        help="the paper's heads and loss (default), its heads with the mean of all losses, or this "
        "package's",
    )
    arguments.add_seeds(parser, f"; the teacher's is {TEACHERS_SEED}")
    parser.add_argument(
        "--rounds",
        type=positive,
        metavar="N",
        help="measure the speed of the first seed's models, too, in N rounds (Figure 4)",
    )
    return parser.parse_args()


def make_tables(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the tables."""
    recipe = en_de.asked_for(en_de.RECIPES[args.size], args)
    work = arguments.sized_workdir(args, "block_sizes")
    en_de.prepare(work, recipe)
    asked = [cell for seed in args.seeds for cell in cells(args, seed)]
    models = dict.fromkeys(cell._replace(acceptance="exact") for cell in asked)
    commands.side_by_side([partial(train, work, recipe, cell) for cell in models])
    rows = {cell: {"size": args.size, **row_of(work, cell)} for cell in asked}
    figures = add_figures(FIGURES, list(rows.values()), KEY)
    of_size = [row for row in figures if row["size"] == args.size]
    print("\n" + table_1.section(of_size))
    if args.size == "medium":
        table_1.write(of_size)
    if args.rounds:
        sizes = {cell: rows[cell]["mean_block_size"] for cell in cells(args, args.seeds[0])}
        measured = figure_4.measured(work, sizes, args.rounds)
        print("\n" + figure_4.section(measured))
        if args.size == "medium":
            figure_4.write(measured)


def cells(args: argparse.Namespace, seed: int) -> list[Cell]:
    """All cells of the command line, with a seed."""
    found: list[Cell] = []
    for heads in args.heads:
        for block_size in args.block_sizes:
            for name in args.settings:
                cell = Cell(heads, block_size, name, seed)
                if block_size == 1:
                    found += [cell.base] * (cell.base not in found)
                    continue
                allowed = acceptances(block_size) if SETTINGS[name].fine_tuned else ["exact"]
                found += [cell._replace(acceptance=acceptance) for acceptance in allowed]
    return found


def acceptances(block_size: int) -> list[str]:
    """All acceptances but minimum blocks above the block size."""
    return [
        name
        for name, options in ACCEPTANCE.items()
        if "--min-block-size" not in options or int(options[-1]) <= block_size
    ]


def train(work: Path, recipe: en_de.Recipe, cell: Cell) -> None:
    """Train the model of a cell, and what it needs."""
    setting = SETTINGS[cell.setting]
    if setting.distilled:
        teacher = f"baseline-{TEACHERS_SEED}"
        en_de.train_baseline(work, recipe, teacher, seed=TEACHERS_SEED)
        en_de.distil(
            work,
            f"{teacher}/checkpoint_last.pt",
            "distilled",
            [*en_de.plugin_options(), *BEAM_SEARCH],
        )
    folder, data = work / cell.model, work / setting.data
    start = work / cell.start.model / "checkpoint_last.pt"
    en_de.train_baseline(work, recipe, cell.start.model, setting.data, cell.seed)
    if setting.fine_tuned:
        en_de.train_baseline(work, recipe, cell.base.model, setting.data, cell.seed, start)
    if cell.block_size > 1:
        commands.stage(
            folder,
            [*en_de.train_command(data, folder, recipe, seed=cell.seed, begins_with=start)]
            + ["--arch", "blockwise_transformer", "--block-size", cell.block_size]
            + ["--criterion", "random_sub_loss", "--label-smoothing", "0.1"]
            + [*HEADS[cell.heads], *recipe.baseline_options]
            + ["--freeze-base"] * (not setting.fine_tuned),
        )


def row_of(work: Path, cell: Cell) -> dict[str, Any]:
    """Decode with a cell's model and acceptance, and compare the translations with its base's."""
    output, run = decoded(work, cell)
    base = decoded(work, cell.base)[1].translations
    return {
        **cell._asdict(),
        "bleu": round(run.bleu, 2),
        "mean_block_size": round(mean_block_size(output), 3),
        "differs_from_base": significance.differs(
            [run.translations], [base], read(en_de.TEST_TEXT)
        ),
        "sha256": checksum(run.translations),
        **commands.origin(output),
    }


def decoded(work: Path, cell: Cell) -> tuple[Path, Run]:
    """The output of fairseq-generate for a cell, and its reading."""
    label = f"{cell.model} {cell.acceptance}".replace(" ", "-")
    method = ["blockwise"] if cell.block_size > 1 else ["greedy"]
    options = ["--decoding", *method, *ACCEPTANCE[cell.acceptance]]
    output = en_de.decode_in_batches(work, label, work / cell.model / "checkpoint_last.pt", options)
    return output, read_run(output, cell.model, cell.acceptance, en_de.TEST_TEXT)


if __name__ == "__main__":
    main()
