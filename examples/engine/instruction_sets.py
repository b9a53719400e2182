#!/usr/bin/env python3
"""Compare this package with CTranslate2 on each instruction set of this processor.

    python examples/engine/instruction_sets.py --machine A    # 30 minutes on 2 quiet cores

Both may use only that instruction set. They take turns, each in its fastest division of the
threads: one process with all of them, or one for each. The figures are added to
``benchmarks/instruction_sets.json``, and their table to docs/performance.md.
"""

import argparse
import datetime
import itertools
import os
import statistics
from typing import Any, NamedTuple
from unittest import mock

from examples.common import commands
from examples.common.figures import read_figures, write_figures
from examples.common.table import distinct, untitled, write_section
from examples.engine.methods import MODELS, PAGE, comparison, parser_of, prepare
from fairseq_fastdec.engine.kernels import loading

FIGURES = commands.ROOT / "benchmarks" / "instruction_sets.json"
COMMAND = "`python examples/engine/instruction_sets.py`"
# What CTranslate2, and the libraries of Intel that it calls, may use.
OF_CTRANSLATE2 = {
    "avx2": ("AVX2", "AVX2", "AVX2"),
    "avx512": ("AVX512", "AVX512_CORE", "AVX512"),
    "avx512_vnni": ("AVX512", "AVX512_CORE_VNNI", "AVX512_E1"),
}
VARIABLES = ("CT2_FORCE_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
NAMES, PRECISIONS, BEAMS, BATCH_SIZES = ("bundled", "base"), ("fp32", "int8"), (1, 5), (1, 32)
OURS, THEIRS = "ours", "CTranslate2"


class Search(NamedTuple):
    """The row of a table."""

    model: str
    precision: str
    beam: int
    batch: int


def main() -> None:
    """Measure, and write figures and the table."""
    args = parse_args()
    figures = read_figures(FIGURES, {})
    for isa, name, batch in itertools.product(args.instruction_sets, args.models, args.batch_sizes):
        figures.setdefault(isa, {})[key_of(name, batch)] = measured(isa, name, batch, args)
        write_figures(FIGURES, figures)
    write_section(PAGE, "instruction_sets", section(figures))


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    here = [isa for isa in OF_CTRANSLATE2 if isa in loading.library().instruction_sets()]
    parser = parser_of(__doc__)
    parser.add_argument("--instruction-sets", nargs="+", choices=here, default=here)
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", choices=BATCH_SIZES, default=BATCH_SIZES
    )
    return parser.parse_args()


def key_of(name: str, batch: int) -> str:
    """The name of a model's figures in the file."""
    return f"{name}, batch size {batch}"


def measured(isa: str, name: str, batch: int, args: argparse.Namespace) -> dict[str, Any]:
    """The seconds of all rounds of a model, with their date, machine and commit."""
    limits = {loading.ISA: isa, **dict(zip(VARIABLES, OF_CTRANSLATE2[isa]))}
    work = args.workdir / name
    prepare(work, MODELS[name])
    with mock.patch.dict(os.environ, limits):
        document = commands.run_benchmark(command_of(name, batch, args), work)
    seconds = {own["method"]: own["seconds"] for own in document["results"]}
    rows = []
    for precision, beam in itertools.product(PRECISIONS, BEAMS):
        search = Search(name, precision, beam, batch)
        pair = {who: seconds[method_of(who, search)] for who in (OURS, THEIRS)}
        rows.append({**search._asdict(), "seconds": pair})
    return {
        "date": datetime.date.today().isoformat(),
        "machine": args.machine,
        "commit": commands.commit(),
        "threads": args.threads,
        "rows": rows,
    }


def method_of(who: str, search: Search) -> str:
    """The name of a method of ``benchmarks.compare``."""
    return f"{who} {search.precision} {search.beam}"


def command_of(name: str, batch: int, args: argparse.Namespace) -> list[Any]:
    """``benchmarks.compare`` with all searches of a model in batches of one size."""
    work, methods = args.workdir / name, {}
    for precision, beam in itertools.product(PRECISIONS, BEAMS):
        search = Search(name, precision, beam, batch)
        decoding = f"--decoding {'greedy' if beam == 1 else 'beam'} --beam {beam}"
        theirs = "float32" if precision == "fp32" else precision
        methods[method_of(OURS, search)] = f"{decoding} --engine-precision {precision}"
        methods[method_of(THEIRS, search)] = (
            f"--engine ctranslate2 --beam {beam} --compute-type {theirs}"
        )
    return commands.benchmark(comparison(work, MODELS[name], batch, args), methods, work)


def section(figures: dict[str, Any]) -> str:
    """The Markdown section of the figures: CTranslate2's times divided by this package's."""
    rows: dict[Search, dict[str, str]] = {}
    each = [(isa, figure) for isa, several in figures.items() for figure in several.values()]
    # A row may have been measured on some of the instruction sets only.
    columns = {f"`{isa}`": "" for isa in figures}
    for isa, figure in each:
        for row in figure["rows"]:
            search = Search(*(row[field] for field in Search._fields))
            fields = {key: str(own) for key, own in search._asdict().items()}
            rows.setdefault(search, {**fields, **columns})[f"`{isa}`"] = ratio(row["seconds"])
    dates, machines, commits = distinct((own for _, own in each), "date", "machine", "commit")
    return (
        f"## Instruction sets\n\n{dates} · machine {machines} · commit {commits} · {COMMAND}\n\n"
        "Each column is an instruction set: CTranslate2's time divided by this "
        "package's, the median of alternating rounds. Both are limited to the instruction set, and "
        "use their fastest division of the threads. The models are those of the sections above.\n\n"
        f"{untitled(list(rows.values()))}\n"
    )


def ratio(seconds: dict[str, list[float]]) -> str:
    """The median of the rounds."""
    ratios = [theirs / ours for ours, theirs in zip(seconds[OURS], seconds[THEIRS])]
    return f"{statistics.median(ratios):.2f}x"


if __name__ == "__main__":
    main()
