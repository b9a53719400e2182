#!/usr/bin/env python3
"""Measure all methods on a GPU beside fairseq's search, as much as the time allows.

    python scripts/measure_gpu.py                        # 25 minutes
    python scripts/measure_gpu.py --minutes 9 --resume   # what is left, in another 9 minutes
    python scripts/measure_gpu.py --tables               # write the tables of --json again
    python scripts/measure_gpu.py --cpu --json /tmp/cpu.json

First runs tests/gpu, then measures the rows of benchmarks/gpu, the most important ones first. The
results are written to --json after each row, so a run may be interrupted at any time. A row that
fails is recorded with its error; a row that does not fit into the time is skipped. At the end, the
tables are written to docs/gpu.md and examples/RESULTS.md. --cpu tries all of this with tiny models,
and writes no tables.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.gpu import gpu_tests, papers, results, rows
from benchmarks.gpu.results import Results
from benchmarks.gpu.rows import Row
from benchmarks.gpu.session import Session
from examples.common import arguments
from examples.common.table import write_section
from fairseq_fastdec.processes.errors import INTERRUPTED, end_with, errors_in_one_line
from fairseq_fastdec.translating.command_line import positive

PROGRAM = results.COMMAND
# The part of the time that the tests may take.
PART_OF_TESTS = 0.3


def main(given: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    args = parse_args(given)
    try:
        with errors_in_one_line(PROGRAM):
            if args.tables:
                write_tables(Results.read(args.json), args)
            else:
                run(args)
    except KeyboardInterrupt:
        end_with(f"{PROGRAM}: interrupted; --resume continues", INTERRUPTED)


def parse_args(given: Optional[Sequence[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    add = parser.add_argument
    add("--minutes", type=positive, default=25, metavar="N", help="(default: 25)")
    add("--json", type=Path, metavar="FILE", help="the results (default: benchmarks/gpu.json)")
    add("--page", type=Path, default=results.PAGE, metavar="FILE", help="with all rows")
    add("--papers", type=Path, default=papers.PAGE, metavar="FILE", help="with the papers' speeds")
    add("--resume", action="store_true", help="keep the rows of --json, and measure the others")
    add("--tables", action="store_true", help="only write the tables of --json")
    add("--commit", help="the commit of a checkout without its history (default: git's)")
    add("--cpu", action="store_true", help="try the command with tiny models on a CPU")
    args = parser.parse_args(given)
    if args.cpu and args.json is None:
        parser.error(f"--cpu: give --json, since {results.FILE.name} has rows of a GPU")
    args.json = args.json or results.FILE
    return args


def run(
    args: argparse.Namespace,
    plan: Optional[Sequence[Row]] = None,
    tests: Path = gpu_tests.DIRECTORY,
) -> Results:
    """Run the tests, measure the rows, and write their tables.

    Args:
        plan: the rows (default: all).

    Raises:
        ValueError: without a GPU, and for results that would be overwritten or mixed with others.
    """
    if not args.cpu and not torch.cuda.is_available():
        raise ValueError("torch finds no GPU: use a machine with one, or --cpu to try the command")
    device, scale = ("cpu", rows.TINY) if args.cpu else ("cuda", rows.FULL)
    origin = results.origin(device, args.commit)
    found = opened(args, origin["device"])
    ends = time.monotonic() + 60 * args.minutes
    if found.tests is None:
        found.tests = gpu_tests.run(tests, PART_OF_TESTS * 60 * args.minutes) | origin
        print(results.of_tests(found.tests), flush=True)
        found.write()
    Session(found, scale, device, origin, ends).run(rows.plan(scale) if plan is None else plan)
    if not args.cpu:
        write_tables(found, args)
    return found


def write_tables(found: Results, args: argparse.Namespace) -> None:
    """Write all tables to their pages.

    Raises:
        ValueError: for rows of a CPU.
    """
    for page, part in ((args.page, results.section(found)), (args.papers, papers.section(found))):
        write_section(page, results.SECTION, part)


def opened(args: argparse.Namespace, device: str) -> Results:
    """The results to add to.

    Raises:
        ValueError: if they exist without ``--resume``, or are of another device.
    """
    if not args.json.exists():
        return Results(args.json)
    if not args.resume:
        raise ValueError(f"--json {args.json}: exists; give --resume, or another file")
    found = Results.read(args.json)
    others = {own["device"] for own in found.measured()} - {device}
    if others:
        raise ValueError(
            f"--resume: {args.json} has rows of {', '.join(others)}, and this is {device}; give "
            "another --json"
        )
    return found


if __name__ == "__main__":
    main()
