#!/usr/bin/env python3
"""Compare greedy decoding with and without shortlists.

    python examples/engine/shortlists.py --machine A    # fifteen minutes on 2 quiet cores

The bundled model has a table that is learned from its training text; transformer base has random
targets. In each precision and batch size, the methods take turns. The figures are written to
``benchmarks/shortlists.json``, and their table to docs/performance.md.
"""

import datetime
import itertools
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary

from examples.common import commands, model_text
from examples.common.en_de import MODEL
from examples.common.figures import read_figures, write_figures
from examples.common.model_text import LANGUAGES
from examples.common.table import distinct, untitled, write_section
from examples.engine.methods import (
    BATCH_SIZES,
    MODELS,
    PAGE,
    TEXT,
    comparison,
    parser_of,
    prepare,
    prepare_base,
    prepare_bundled,
    speed,
)
from examples.other_models.published import write_table
from fairseq_fastdec.decoding import shortlist
from fairseq_fastdec.tools.shortlisting.sentences import FlatSentences, read

FIGURES = commands.ROOT / "benchmarks" / "shortlists.json"
COMMAND = "`python examples/engine/shortlists.py`"
TABLE = "lex.s2t"
ALL = "greedy"
# The numbers of targets of each source type, --shortlist-best.
BEST = {"bundled": (100, 30), "base": (100, 10)}
PRECISIONS = ("fp32", "int8")


def main() -> None:
    """Measure, and write figures and the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(BEST), default=list(BEST))
    args = parser.parse_args()
    figures = read_figures(FIGURES, {})
    for name in args.models:
        figures[name] = measured(args.workdir / f"{name}_shortlists", name, args)
        write_figures(FIGURES, figures)
    write_section(PAGE, "shortlists", section(figures))


def prepare_learned(work: Path) -> None:
    """Write the bundled model, its test set, and a table that is learned from its training text."""
    prepare_bundled(work)
    model_text.write_training_text(work / "data", MODEL)
    source, target = LANGUAGES
    command = commands.module("fairseq_fastdec", "build-shortlist")
    commands.run([*command, work / "data", "-s", source, "-t", target, "--output", work / TABLE])


def prepare_random(work: Path) -> None:
    """Write a transformer base, sentences for it, and a table of random targets."""
    prepare_base(work)
    sources, dictionary = sources_of(work)
    write_table(work / TABLE, dictionary, torch.from_numpy(sources.tokens))


PREPARE = {"bundled": prepare_learned, "base": prepare_random}


def sources_of(work: Path) -> tuple[FlatSentences, Dictionary]:
    """The sources of the test set, and their dictionary."""
    data = work / "data"
    both = tuple(Dictionary.load(str(data / f"dict.{language}.txt")) for language in LANGUAGES)
    return read(str(data), "test", LANGUAGES, both)[0], both[0]


def measured(work: Path, name: str, args: Namespace) -> dict[str, Any]:
    """The figures of a model, with their date, machine and commit."""
    model = MODELS[name]._replace(prepare=PREPARE[name])
    prepare(work, model)
    rows = []
    for precision, size in itertools.product(PRECISIONS, BATCH_SIZES):
        options = [*comparison(work, model, size, args), "--processes", 1]
        methods = methods_of(work, name, precision)
        document = commands.run_benchmark(commands.benchmark(options, methods, work), work)
        of_methods = {own["method"]: own for own in document["results"]}
        rows += [{"precision": precision, "batch_size": size, "methods": of_methods}]
    return {
        "date": datetime.date.today().isoformat(),
        "machine": args.machine,
        "commit": commands.commit(),
        "threads": args.threads,
        "types": {method_of(best): n_types(work, best) for best in BEST[name]},
        "rows": rows,
    }


def methods_of(work: Path, name: str, precision: str) -> dict[str, str]:
    """The methods of ``benchmarks.compare``, by name."""
    decoding = f"--decoding greedy --engine-precision {precision}"
    tables = {
        method_of(best): f"{decoding} --shortlist {work / TABLE} --shortlist-best {best}"
        for best in BEST[name]
    }
    return {ALL: decoding, **tables}


def method_of(best: int) -> str:
    """The name of a method with a shortlist."""
    return f"`--shortlist-best {best}`"


def n_types(work: Path, best: int) -> float:
    """The mean number of types of a sentence's shortlist."""
    sources, dictionary = sources_of(work)
    target = Dictionary.load(str(work / "data" / f"dict.{LANGUAGES[1]}.txt"))
    table = shortlist.load(str(work / TABLE), dictionary, target, best=best)
    sentences = np.split(sources.tokens, sources.offsets[1:-1])
    types = (table.types_of([own], None)[0].size for own in sentences)
    return float(np.mean([*types]))


def section(figures: dict[str, Any]) -> str:
    """The Markdown section of the figures."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for name, figure in figures.items():
        for own, method in itertools.product(figure["rows"], figure["types"]):
            result, size = own["methods"][method], own["batch_size"]
            row = rows.setdefault(
                (name, own["precision"], method),
                {
                    "model": name,
                    "precision": own["precision"],
                    "shortlist": method,
                    "types": f"{figure['types'][method]:,.0f}",
                    "BLEU": "",
                    "identical": "",
                },
            )
            if MODELS[name].options == TEXT:  # trained
                row["BLEU"] = f"{result['bleu']:.2f} ({own['methods'][ALL]['bleu']:.2f})"
                row["identical"] = f"{result['identical']} of {result['sentences']}"
            row[f"batch {size}"] = speed(own["methods"], method, ALL)
    dates, machines, commits, threads = distinct(
        figures.values(), "date", "machine", "commit", "threads"
    )
    return (
        f"## Shortlists\n\n{dates} · machine {machines} · commit {commits} · {COMMAND}; {threads} "
        "threads\n\nGreedy decoding of the models of the sections above. The table of the bundled "
        "model is learned from its training text; base has random targets. *Types*: the mean "
        "number of target types that are computed for a sentence. *BLEU*: in brackets without a "
        "shortlist. *Identical*: translations that are the same as without. "
        "Speed is relative to `greedy` without a shortlist, in the same precision and in the same "
        f"rounds, with the range of the rounds.\n\n{untitled(list(rows.values()))}\n"
    )


if __name__ == "__main__":
    main()
