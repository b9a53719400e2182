#!/usr/bin/env python3
"""Tables 2 and 3 of Imamura and Sumita (WAT 2020), for models of several seeds.

    python examples/double_token/run.py --cpu-autocast --seeds 1 2 3    # 8 hours on two cores

As in the paper, the models are trained from scratch for the same time, and differ only in the order
of tokens and the number of tokens per step. Two more begin with a trained model. All learn the
translations of one teacher, the bundled model of ../en_de, of the training data and of crossed
sentences (../common/crossing.py).

Every command is printed. Models are trained on all cores, each with one thread. Stages with
existing results are skipped, so an interrupted run can be resumed. The figures of all seeds replace
``benchmarks/double_token.json`` and the tables of examples/RESULTS.md.
"""

import argparse
import re
from functools import partial
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.averaging import N_AVERAGED, train_and_average
from examples.common.table import write_section
from examples.common.training_text import with_crossed, without_references
from examples.double_token import table_2, table_3
from examples.double_token.comparison import Decoded, read_decoded, show_comparison
from examples.double_token.models import DOUBLE_TOKEN, METHODS, MODELS, Method, Model
from fairseq_fastdec.data import atomic_files

TEACHER = en_de.MODEL / "checkpoint.pt"
N_CROSSED = 100_000
UPDATES = 3400
TRAINING = [*en_de.schedule(3000, 2e-3, 400, UPDATES), "--dropout", "0.1", *en_de.CROSS_ENTROPY]
SAVE_EVERY = 50
# Beam widths and batch sizes; the first are the paper's.
SETTINGS = ((10, 32), (10, 1), (1, 32), (1, 1))


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        compare(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = en_de.recipe_parser(__doc__, "double_token")
    arguments.add_rounds(parser)
    arguments.add_seeds(parser)
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the tables."""
    work = args.workdir
    recipe = en_de.asked_for(en_de.BUNDLED, args)
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    without_references(work, "sources", partial(with_crossed, n=N_CROSSED, seed=13))
    en_de.distil(work, TEACHER, data="sources")
    models = [model.of_seed(seed) for seed in args.seeds for model in MODELS]
    commands.side_by_side([partial(train, work, recipe, model) for model in models])
    decoded = []
    for seed in args.seeds:
        of_seed = decode_all(work, seed, args.rounds)
        show_tables(work, seed, of_seed)
        decoded += of_seed
    figures = table_2.record(decoded, work / "data" / "text" / "test.de")
    for table in (table_2, table_3):
        section = table.section(figures)
        print("\n" + section)
        write_section(table_2.PAGE, table.SECTION, section)


def train(work: Path, recipe: en_de.Recipe, model: Model) -> None:
    """Train one model, after the one that it begins with, and average its last checkpoints."""
    if model.begins_with:
        train(work, recipe, model.begins_with)
    train_and_average(work / model.name, training_command(work, recipe, model))


def training_command(work: Path, recipe: en_de.Recipe, model: Model) -> list:
    """The command of fairseq-train, which keeps the checkpoints of the last updates."""
    begins_with = model.begins_with and work / model.begins_with.name / "averaged.pt"
    return [
        *en_de.train_command(
            work / "distilled" / "data", work / model.name, recipe, DOUBLE_TOKEN,
            SAVE_EVERY, N_AVERAGED, model.seed, begins_with,
        ),
        *model.order, "--arch", model.arch, *TRAINING,
        # Until then, fairseq-train validates and saves at most at the end of epochs.
        "--validate-after-updates", UPDATES - N_AVERAGED * SAVE_EVERY,
    ]  # fmt: skip


def decode_all(work: Path, seed: int, rounds: int) -> list[Decoded]:
    """Decode the test set with each method in each setting, in alternating rounds."""
    return [
        decode(work, method, seed, beam, batch_size, number)
        for number in range(1, rounds + 1)
        for beam, batch_size in SETTINGS
        for method in METHODS
    ]


def decode(
    work: Path, method: Method, seed: int, beam: int, batch_size: int, number: int
) -> Decoded:
    """Decode the test set with one method and the model of one seed; ``number`` is the round."""
    model = method.model.of_seed(seed)
    words = [method.title, model.name, f"beam {beam} batch {batch_size} round {number}"]
    label = re.sub(r"\W+", "-", " ".join(words))
    output = work / "decoded" / label
    if not commands.finished(output):
        options = method.options(beam)
        if method.has_statistics:
            options += ["--decoding-stats", output / "stats.jsonl"]
        commands.generate_into(
            output,
            [
                work / "data", *en_de.plugin_options(DOUBLE_TOKEN), *model.order, *options,
                "--path", work / model.name / "averaged.pt", "--batch-size", batch_size,
                *en_de.test_options(work),
            ],
        )  # fmt: skip
    return read_decoded(output, method.title, seed, beam, batch_size)


def show_tables(work: Path, seed: int, decoded: list[Decoded]) -> None:
    """Print the comparisons of one seed, and write them as Markdown."""
    tables = [show_comparison(decoded, *setting) for setting in SETTINGS]
    atomic_files.write_text(work / f"tables-{seed}.md", "\n\n".join(tables) + "\n")


if __name__ == "__main__":
    main()
