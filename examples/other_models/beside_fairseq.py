#!/usr/bin/env python3
"""Compare with fairseq on models of published sizes: loading, memory, speed.

    python examples/other_models/beside_fairseq.py                     # all: two hours
    python examples/other_models/beside_fairseq.py m2m_100 --minutes 5

Each model is written with random weights (published.py), measured, and deleted. Outputs are forced
to 15 tokens. Existing measurements are not repeated, so an interrupted run can be resumed. Run
nothing else on the machine.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from examples.common import arguments, commands
from examples.common.table import markdown
from examples.other_models.published import MODELS, Published
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

# Tokens of every output, with EOS.
TARGET_LENGTH = 15
FORCED = [
    "--min-len", str(TARGET_LENGTH - 1), "--max-len-a", "0", "--max-len-b", str(TARGET_LENGTH - 1)
]  # fmt: skip
SEARCHES = {"greedy": 1, "beam 5": 5}
# Batch sizes and the number of sentences decoded.
BATCHES = {1: 3, 16: 16}
FAIRSEQ, SHORTLIST = "fairseq", "int8, shortlist"
PRECISIONS = ["fp32", "bf16", "int8"]


class Measurement(NamedTuple):
    """A command whose result is stored.

    Attributes:
        name: the name of its directory.
        command: the command to run.
        is_timed: whether the result is the time and memory of the command.
    """

    name: str
    command: list[Any]
    is_timed: bool


def main() -> None:
    """Build, measure, print."""
    args = parse_args()
    with commands.resumable():
        for name in args.models:
            measure(name, args)
    print_tables(args.workdir, args.models)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--workdir", type=Path, default=Path("work/other_models"))
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument(
        "--minutes", type=positive, metavar="N", help="start no measurement after N minutes"
    )
    parser.add_argument("--keep", action="store_true", help="do not delete the checkpoints")
    args = parser.parse_args()
    for name in args.models:
        if name not in MODELS:
            parser.error(f"{name}: there is no such model; choose from {', '.join(MODELS)}")
    args.models = args.models or list(MODELS)
    return args


def measure(name: str, args: argparse.Namespace) -> None:
    """Make the missing measurements of a model, which is deleted afterwards."""
    model, work = MODELS[name], args.workdir / name
    left = [
        measurement
        for measurement in measurements(model, work, args.rounds, args.threads)
        if not commands.finished(work / measurement.name)
    ]
    for measurement in left:
        if args.minutes and time.monotonic() - BEGAN > 60 * args.minutes:
            sys.exit(f"--minutes {args.minutes}: exceeded; run the same command again to continue")
        build(name, work / "model")
        perform(measurement, work / measurement.name, args.threads)
    if not args.keep:
        shutil.rmtree(work / "model", ignore_errors=True)


def build(name: str, directory: Path) -> None:
    """Build the model and its data, in a separate process to free its memory."""
    if not commands.finished(directory):
        commands.run([sys.executable, Path(__file__).with_name("published.py"), name, directory])
        commands.mark_finished(directory)


def measurements(
    model: Published, work: Path, n_rounds: int, n_threads: int
) -> Iterator[Measurement]:
    """Yield the measurements: methods in turns per search and batch size, then whole commands."""
    given = [work / "model", "--path", work / "model" / "checkpoint.pt", *model.options]
    given += [*model.search, *FORCED]
    for search, beam in SEARCHES.items():
        for size, n_sentences in BATCHES.items():
            name = f"speed {search} {size}"
            options = [*given, "--task", model.task, "--batch-size", size]
            options += ["--sentences", n_sentences, "--rounds", n_rounds, "--processes", "1"]
            options += ["--threads", n_threads, "--num-workers", "0"]
            compared = {
                method: " ".join(map(str, words))
                for method, words in methods(model, beam, work).items()
            }
            yield Measurement(name, commands.benchmark(options, compared, work / name), False)
    for search, beam in SEARCHES.items():
        for method, words in methods(model, beam, work).items():
            command = [*commands.fairseq("generate"), *given, "--user-dir", commands.PLUGIN]
            command += ["--task", model.task, "--cpu", "--batch-size", "1", *words]
            command += ["--gen-subset", "one", "--num-workers", "0"]
            yield Measurement(f"command {search} {method}", command, True)


def methods(model: Published, beam: int, work: Path) -> dict[str, list[Any]]:
    """The options of fairseq-generate for fairseq's search, and for this package's in all
    precisions.
    """
    search = ["--beam", str(beam)]
    own = ["--decoding", "greedy" if beam == 1 else "beam", *search]
    found = {FAIRSEQ: ["--decoding", "fairseq", *search]}
    for precision in PRECISIONS:
        found[precision] = [*own, "--engine-precision", precision]
    if model.has_table:
        found[SHORTLIST] = [*found["int8"], "--shortlist", work / "model" / "lex.s2t"]
    return found


def perform(measurement: Measurement, directory: Path, n_threads: int) -> None:
    """Run a command, and store its time and memory."""
    directory.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    threads = {"OMP_NUM_THREADS": str(n_threads)}
    memory = commands.run(measurement.command, directory / "log.txt", threads)
    if measurement.is_timed:
        taken = {"seconds": time.perf_counter() - began, "memory": memory}
        atomic_files.write_text(directory / "taken.json", json.dumps(taken))
    commands.mark_finished(directory)


def print_tables(work: Path, names: list[str]) -> None:
    """Print the results, and write them as ``tables.md``."""
    tables = [
        markdown(title, rows)
        for title, rows in (
            ("Times as fast as fairseq's own:", list(speed_rows(work, names))),
            ("Whole commands for one sentence, seconds and MiB:", list(command_rows(work, names))),
        )
        if rows
    ]
    text = "\n\n".join(tables) + "\n"
    atomic_files.write_text(work / "tables.md", text)
    print("\n" + text)


def speed_rows(work: Path, names: list[str]) -> Iterator[dict[str, str]]:
    """A row for each model, search and batch size."""
    for name, search, size in _cases(names):
        path = work / name / f"speed {search} {size}" / "benchmark.json"
        if path.exists():
            results = json.loads(path.read_text(encoding="utf-8"))["results"]
            own = {result["method"]: result for result in results}
            row = {"": f"{MODELS[name].title}, {search}, batch {size}"}
            row["fairseq, seconds a sentence"] = f"{1 / own[FAIRSEQ]['sentences_per_second']:.2f}"
            for method in (*PRECISIONS, SHORTLIST):
                row[method] = f"{1 / own[method]['time_ratio']:.1f}x" if method in own else ""
            yield row


def command_rows(work: Path, names: list[str]) -> Iterator[dict[str, str]]:
    """A row for each model and search."""
    for name in names:
        for search in SEARCHES:
            row = {"": f"{MODELS[name].title}, {search}"}
            for method in (FAIRSEQ, *PRECISIONS):
                path = work / name / f"command {search} {method}" / "taken.json"
                if path.exists():
                    taken = json.loads(path.read_text(encoding="utf-8"))
                    row[method] = f"{taken['seconds']:.1f} s, {taken['memory']:,.0f}"
            if len(row) == 2 + len(PRECISIONS):
                yield row


def _cases(names: list[str]) -> Iterator[tuple[str, str, int]]:
    return ((name, search, size) for name in names for search in SEARCHES for size in BATCHES)


BEGAN = time.monotonic()

if __name__ == "__main__":
    main()
