#!/usr/bin/env python3
"""Tables 2, 6 and 7 of the streaming paper (Yang et al. 2020): an LSTM that parses Python.

    python examples/parsing/run.py                 # shortened: some minutes on one core
    python examples/parsing/run.py --size full     # about half an hour

The text is the standard library of the running Python. Training and decoding have one thread. Every
command is printed. The table of ``--size full`` is written to examples/RESULTS.md. Stages with
existing results in --workdir are skipped, so an interrupted run can be resumed.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common import arguments, commands, en_de
from examples.common.table import origins, write_section
from examples.parsing import corpus, cpu_clock
from examples.parsing.parse_results import read_run, table
from fairseq_fastdec.data import atomic_files

# n sentences of k candidates each: the most that any method expands at once (section 4.2).
SENTENCES, WIDTH = 10, 10
ROWS = SENTENCES * WIDTH
FIXED = "FIXED, fairseq's"
PAGE = commands.ROOT / "examples" / "RESULTS.md"
SECTION = "parsing"  # the name of the section in the page


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
    with commands.resumable(), commands.one_thread():
        run_recipe(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    arguments.add_rounds(parser)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="measure CPU time instead of wall-clock time, on a machine with other load",
    )
    arguments.add_size(parser, "parsing", SIZES)
    return parser.parse_args()


def run_recipe(args: argparse.Namespace) -> None:
    """Run all stages from the standard library to the table."""
    size = SIZES[args.size]
    work = arguments.sized_workdir(args, "parsing")
    prepare(work, size)
    train(work, size)
    outputs = decode(work, args.rounds, args.cpu_time)
    runs = {method: [read_run(own) for own in rounds] for method, rounds in outputs.items()}
    where = origins(commands.origin(own) for rounds in outputs.values() for own in rounds)
    title = (
        f"{size.most['test']} statements, at most {ROWS} candidates at once, {args.size} recipe, "
        f"one thread. {'CPU time' if args.cpu_time else 'Time'} of the search, to {FIXED}: median "
        f"of alternating rounds ({args.rounds}), least and greatest"
    )
    text = f"{where}\n\n{title}\n\n{table(runs, FIXED)}\n"
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text)
    if args.size == "full":
        write_section(PAGE, SECTION, text)


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


def decode(work: Path, rounds: int, cpu_time: bool) -> dict[str, list[Path]]:
    """Decode the same statements with every method, in alternating rounds.

    Args:
        cpu_time: whether to measure CPU time instead of wall-clock time.

    Returns:
        the outputs of each method's rounds
    """
    clock = "processor" if cpu_time else "clock"
    program = [sys.executable, Path(cpu_clock.__file__)] if cpu_time else None
    outputs: dict[str, list[Path]] = {method: [] for method in METHODS}
    for number in range(1, rounds + 1):
        for method, options in METHODS.items():
            output = work / "decoded" / re.sub(r"\W+", "-", f"{method} {clock} {number}")
            if not commands.finished(output):
                generate(work, output, options, program)
            outputs[method].append(output)
    return outputs


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
