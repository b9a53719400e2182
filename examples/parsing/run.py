#!/usr/bin/env python3
"""Tables 2 and 6 of the streaming paper (Yang et al. 2020): an LSTM that parses Python.

    python examples/parsing/run.py                 # shortened: some minutes on one core
    python examples/parsing/run.py --size full     # about half an hour

The text is the standard library of the running Python. Every command is printed. Stages with
existing results in --workdir are skipped, so an interrupted run can be resumed.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common import arguments, commands, en_de
from examples.parsing import corpus, cpu_clock
from examples.parsing.parse_results import Run, read_run, show_table

# n sentences of k candidates each: the most that any method expands at once (section 4.2).
SENTENCES, WIDTH = 10, 10
ROWS = SENTENCES * WIDTH
FIXED = "FIXED, fairseq's"


@dataclass
class Size:
    """The settings that differ between the sizes.

    Attributes:
        most: the maximum number of statements per part, see :func:`corpus.write`.
        training: batch size and schedule of the training.
    """

    most: dict[str, int]
    training: list[str]


SIZES = {
    "quick": Size({"test": 200, "valid": 200}, en_de.schedule(4000, 4e-3, 50, 500)),
    "full": Size({"test": 500, "valid": 500}, en_de.schedule(4000, 4e-3, 100, 800)),
}

# One layer on either side and attention, as in Dong and Lapata's parser.
NETWORK = [
    "--arch", "lstm", "--dropout", "0.2",
    "--encoder-embed-dim", "128", "--encoder-hidden-size", "128", "--encoder-bidirectional",
    "--decoder-embed-dim", "128", "--decoder-hidden-size", "256", "--decoder-out-embed-dim", "128",
    "--share-decoder-input-output-embed",
]  # fmt: skip


def variable(delta: float) -> dict[str, list[str]]:
    """The searches with beams of variable width, pruned with delta and M = 3."""
    pruning = ["--beam", str(WIDTH), "--prune-threshold", str(delta), "--max-candidates", "3"]
    # As in the paper, more sentences are in progress than a step expands.
    streaming = ["--batch-size", str(ROWS), "--max-beam-rows", str(ROWS)]
    return {
        f"VAR-BATCH, delta {delta}": [
            "--decoding", "variable_beam", *pruning, "--batch-size", str(SENTENCES),
        ],
        f"VAR-STREAM, delta {delta}": ["--decoding", "streaming", *pruning, *streaming],
        f"VAR-STR-FIFO, delta {delta}": [
            "--decoding", "streaming", *pruning, *streaming, "--stream-policy", "fifo",
        ],
    }  # fmt: skip


METHODS = {
    FIXED: ["--decoding", "fairseq", "--beam", str(WIDTH), "--batch-size", str(SENTENCES)],
    "FIXED": ["--decoding", "beam", "--beam", str(WIDTH), "--batch-size", str(SENTENCES)],
    # The paper's rule for candidates that have ended, and no pruning (appendix A.1).
    "FIXED-OURS": [
        "--decoding", "variable_beam", "--beam", str(WIDTH), "--batch-size", str(SENTENCES),
        "--prune-threshold", "inf", "--max-candidates", str(WIDTH),
    ],
    "GREEDY": ["--decoding", "greedy", "--beam", "1", "--batch-size", str(ROWS)],
    **variable(10),
    **variable(2.5),
}  # fmt: skip


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        run_recipe(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    arguments.add_rounds(parser)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="measure CPU time instead of wall-clock time, on a machine with other load; use with "
        "OMP_NUM_THREADS=1",
    )
    arguments.add_size(parser, "parsing", SIZES)
    return parser.parse_args()


def run_recipe(args: argparse.Namespace) -> None:
    """Run all stages from the standard library to the table."""
    size = SIZES[args.size]
    work = arguments.sized_workdir(args, "parsing")
    prepare(work, size)
    train(work, size)
    runs = decode(work, args.rounds, args.cpu_time)
    title = (
        f"{size.most['test']} statements, at most {ROWS} candidates at once, {args.size} recipe. "
        f"Seconds{' of a processor' * args.cpu_time}: medians of alternating rounds "
        f"({args.rounds}). Time: to {FIXED}, in the same round (least to greatest)."
    )
    show_table(work, runs, FIXED, title)


def prepare(work: Path, size: Size) -> None:
    """Write the statements, and binarise them."""
    if commands.finished(work / "data"):
        return
    text = work / "text"
    sizes = corpus.write(text, size.most)
    print("statements: " + ", ".join(f"{number} {part}" for part, number in sizes.items()))
    command = [*commands.fairseq("preprocess"), *languages(), "--destdir", work / "data"]
    for part in ("train", "valid", "test"):
        command += [f"--{part}pref", text / part]
    commands.run(command)
    commands.mark_finished(work / "data")


def train(work: Path, size: Size) -> None:
    """Train a stock LSTM."""
    commands.stage(
        work / "lstm",
        [
            *commands.fairseq("train"), work / "data", *plugin_options(), *NETWORK,
            *size.training, *en_de.optimizer_options(), "--criterion", "cross_entropy",
            *en_de.saving_options(work / "lstm", save_every=250),
        ],
    )  # fmt: skip


def decode(work: Path, rounds: int, cpu_time: bool) -> dict[str, list[Run]]:
    """Decode the same statements with every method, in alternating rounds.

    Args:
        cpu_time: whether to measure CPU time instead of wall-clock time.
    """
    clock = "processor" if cpu_time else "clock"
    program = [sys.executable, Path(cpu_clock.__file__)] if cpu_time else None
    runs: dict[str, list[Run]] = {method: [] for method in METHODS}
    for number in range(1, rounds + 1):
        for method, options in METHODS.items():
            output = work / "decoded" / re.sub(r"\W+", "-", f"{method} {clock} {number}")
            if not commands.finished(output):
                generate(work, output, options, program)
            runs[method].append(read_run(output))
    return runs


def generate(work: Path, output: Path, options: list[str], program: Optional[list]) -> None:
    """Run fairseq-generate with one method, with all hypotheses of a beam for the oracle."""
    width = options[options.index("--beam") + 1]
    commands.generate_into(
        output,
        [
            work / "data", *plugin_options(), *options, "--nbest", width,
            "--path", work / "lstm" / "checkpoint_last.pt", "--gen-subset", "test",
        ],
        program,
    )  # fmt: skip


def languages() -> list[str]:
    """The source and target language."""
    return ["--source-lang", corpus.SOURCE, "--target-lang", corpus.TARGET]


def plugin_options() -> list:
    """The task with this plugin; --cpu excludes GPUs from the comparison."""
    return [
        "--user-dir", commands.PLUGIN, *languages(), "--cpu",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
