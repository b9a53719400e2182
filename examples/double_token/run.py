#!/usr/bin/env python3
"""Train and compare the models of Imamura and Sumita (WAT 2020) on real English-German text.

    python examples/double_token/run.py                 # shortened: about three hours on 2 cores
    python examples/double_token/run.py --size full     # many hours

Prints their Table 2 (quality and speed) and Table 3 (precision at both ends of the sentence). Every
command is printed. Stages with existing results in --workdir are skipped, so an interrupted run can
be resumed.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.averaging import average
from examples.double_token.comparison import Decoded, read_decoded, show_comparison
from examples.double_token.models import (
    BASELINE,
    MASK_PREDICT,
    METHODS,
    MODELS,
    PROPOSED,
    TEACHER,
    Method,
    Model,
)
from examples.double_token.precision import show_precision
from examples.double_token.trainer import Training, command, training
from fairseq_fastdec.data import atomic_files

# Beam widths and batch sizes; the first are the paper's.
SETTINGS = ((10, 32), (10, 1), (1, 32), (1, 1))


@dataclass
class Size:
    """The settings that differ between the sizes.

    Data, network and training are those of ``../common/en_de.py``, with more updates. Mask-Predict
    learns more slowly, and has more updates than the others in the full size, as in the paper, but
    not in the quick size.
    """

    recipe: en_de.Recipe
    autoregressive: Training
    mask_predict: Training
    save_every: int


SIZES = {
    "quick": Size(
        en_de.RECIPES["quick"],
        training(800, 2e-3, 400, 6000, dropout=0.1),
        training(800, 1e-3, 400, 3000, dropout=0),
        save_every=50,
    ),
    "full": Size(
        en_de.RECIPES["full"],
        training(3000, 2e-3, 400, 6000, dropout=0.2),
        training(3000, 1e-3, 800, 12000, dropout=0.2),
        save_every=50,
    ),
}


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        compare(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    arguments.add_size(parser, "double_token", SIZES)
    arguments.add_rounds(parser)
    en_de.add_autocast_option(parser)
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the tables."""
    size = SIZES[args.size]
    own_task = replace(size, recipe=en_de.asked_for(size.recipe, args))
    work = arguments.sized_workdir(args, "double_token")
    en_de.prepare(work, size.recipe)
    for model in MODELS:
        if model.distilled:
            distil(work)
        # Mask-Predict uses fairseq's task, without the plugin's options.
        train(work, size if model is MASK_PREDICT else own_task, model)
        average(work / model.name)
    show_tables(work, decode_all(work, METHODS, args.rounds))


def show_tables(work: Path, decoded: list[Decoded], name: str = "tables.md") -> None:
    """Print the tables, and write them as Markdown."""
    tables = [show_comparison(decoded, *setting) for setting in SETTINGS]
    by_paper = [run for run in decoded if (run.beam, run.batch_size) == SETTINGS[0]]
    baseline, proposed = (
        next(run.hypotheses for run in by_paper if run.title == title)
        for title in (BASELINE, PROPOSED)
    )
    tables.append(show_precision(work / "data" / "text" / "test.de", baseline, proposed))
    atomic_files.write_text(work / name, "\n\n".join(tables) + "\n")


def distil(work: Path) -> None:
    """Create training data with the teacher's translations as targets."""
    task = [*en_de.plugin_options(TEACHER.task), *TEACHER.order]
    decoding = [*task, "--decoding", "beam", "--beam", "5"]
    en_de.distil(work, f"{TEACHER.name}/averaged.pt", options=decoding)


def train(work: Path, size: Size, model: Model) -> None:
    """Train one model, keeping the checkpoints of its last updates."""
    if not commands.finished(work / model.name):
        commands.run(training_command(work, size, model))
        commands.mark_finished(work / model.name)


def training_command(work: Path, size: Size, model: Model) -> list:
    """The command of fairseq-train."""
    return command(
        work / ("distilled/data" if model.distilled else "data"),
        work / model.name,
        size.recipe,
        model,
        size.mask_predict if model is MASK_PREDICT else size.autoregressive,
        size.save_every,
        work / model.begins_with / "averaged.pt" if model.begins_with else None,
    )


def decode_all(work: Path, methods: Sequence[Method], rounds: int) -> list[Decoded]:
    """Decode the test set with each method in each setting, in alternating rounds."""
    return [
        decode(work, method, beam, batch_size, number)
        for number in range(1, rounds + 1)
        for beam, batch_size in SETTINGS
        for method in methods
    ]


def decode(work: Path, method: Method, beam: int, batch_size: int, number: int) -> Decoded:
    """Decode the test set with one method; ``number`` is the round."""
    words = [method.title, method.model.name, f"beam {beam} batch {batch_size} round {number}"]
    label = re.sub(r"\W+", "-", " ".join(words))
    output = work / "decoded" / label
    if not commands.finished(output):
        model, options = method.model, method.options(beam)
        if method.has_statistics:
            options += ["--decoding-stats", output / "stats.jsonl"]
        commands.generate_into(
            output,
            [
                work / "data", *en_de.plugin_options(model.task), *model.order, *options,
                "--path", work / model.name / "averaged.pt", "--batch-size", batch_size,
                *en_de.test_options(work),
            ],
        )  # fmt: skip
    return read_decoded(output, method.title, beam, batch_size)


if __name__ == "__main__":
    main()
