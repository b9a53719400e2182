#!/usr/bin/env python3
"""Measure the methods on the bundled model, a large one and transformer base.

    python examples/engine/methods.py --machine A    # some thirty minutes on 2 quiet cores

All methods take turns, each in one process with all threads; CTranslate2 decodes as many batches at
once as there are threads, which is its fastest setting. The figures are written to
``benchmarks/methods.json``, and their tables to docs/performance.md.
"""

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch

from examples.common import arguments, commands
from examples.common.en_de import MODEL, text_options
from examples.common.figures import read_figures, write_figures
from examples.common.model_text import LANGUAGES, write_test_set
from examples.common.random_base import FORCED, save_base, write_sentences
from examples.common.stock import save_without_heads
from examples.common.table import between_marks, untitled
from examples.common.wider import write_wider
from examples.engine.base import times_as_fast
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

FIGURES = commands.ROOT / "benchmarks" / "methods.json"
PAGE = commands.ROOT / "docs" / "performance.md"
COMMAND = "`python examples/engine/methods.py`"
GREEDY, BEAM = "fairseq `--beam 1`", "fairseq `--beam 5`"
# Of the large model: its dimensions relative to those of the bundled model, and its layers.
FACTOR, DECODER_LAYERS = 4, 6
# The sentences of the text that repeats them.
N_REPEATED = 32
# What speeds are relative to.
TO_SEARCH = (
    "Speed is relative to fairseq's search with the same beam size in the same rounds, with the "
    "range of the rounds."
)
TO_FAIRSEQ = f"{TO_SEARCH} CTranslate2 uses one thread for each of its {{threads}} inter threads."
TO_GREEDY = (
    "Speed is relative to `greedy` in the same precision and in the same rounds, with the range of "
    "the rounds."
)
BATCH_SIZES = (1, 32)
CT2 = "--engine ctranslate2 --beam"
HEADS = f"--decoding blockwise --path {MODEL / 'checkpoint.pt'}"
FAIRSEQ = {GREEDY: "--decoding fairseq --beam 1", BEAM: "--decoding fairseq --beam 5"}
OURS = {"greedy": "--decoding greedy", "greedy, int8": "--decoding greedy --engine-precision int8"}
REFERENCES = {**FAIRSEQ, **OURS}


class Model(NamedTuple):
    """A model to measure.

    Attributes:
        title: of the section in docs/performance.md.
        description: the text before the table.
        prepare: writes ``data`` and ``checkpoint.pt`` to a directory.
        options: fairseq's options for all methods.
        sentences: the number of sentences for each batch size.
        methods: by the search that they are compared with, then by name: their options.
        compared: what speeds are relative to.
    """

    title: str
    description: str
    prepare: Callable[[Path], None]
    options: list[str]
    sentences: dict[int, int]
    methods: dict[str, dict[str, str]]
    compared: str = TO_FAIRSEQ


def in_precisions(name: str, options: str, precisions: tuple[str, ...]) -> dict[str, str]:
    """A method in several precisions, by name."""
    return {
        f"{name}, {precision}": f"{options} --engine-precision {precision}"
        for precision in precisions
    }


def prepare_bundled(work: Path) -> None:
    """Write the test set of ../en_de in the model's subwords, and the model without heads."""
    write_test_set(work / "data", MODEL)
    save_without_heads(MODEL / "checkpoint.pt", work / "checkpoint.pt")


def prepare_large(work: Path) -> None:
    """Write the test set, and a large model with the translations of the bundled one."""
    prepare_bundled(work)
    path = work / "checkpoint.pt"
    write_wider(path, path, FACTOR, DECODER_LAYERS)


def prepare_repeated(work: Path) -> None:
    """Write the large model, and a text in which each sentence occurs twice."""
    prepare_large(work)
    write_test_set(work / "data", MODEL, repeat=2, n_sentences=N_REPEATED)


def prepare_base(work: Path) -> None:
    """Write random sentences, and a transformer base with random weights."""
    write_sentences(work / "data", LANGUAGES)
    save_base(work / "checkpoint.pt", LANGUAGES, seed=1)


PRECISIONS = ("fp32", "bf16", "int8")
TEXT = text_options(MODEL / "bpe.codes")
LOOKAHEAD = {
    own: {own.replace("greedy", "lookahead"): options.replace("greedy", "lookahead")}
    for own, options in OURS.items()
}
IN_TORCH = {
    GREEDY: {"greedy": "--torch --decoding greedy"},
    BEAM: {
        "beam 5": "--torch --decoding beam --beam 5",
        "streaming 5": "--torch --decoding streaming --beam 5",
    },
}
MODELS = {
    "bundled": Model(
        "Methods on the bundled model",
        "*BLEU* and *tokens per invocation* are those of batch size 1.",
        prepare_bundled,
        TEXT,
        {1: 200, 32: 200},
        {
            GREEDY: {
                "greedy": "--decoding greedy",
                "greedy, int8": "--decoding greedy --engine-precision int8",
                "lookahead": "--decoding lookahead",
                "blockwise": HEADS,
                "blockwise, int8": f"{HEADS} --engine-precision int8",
                "blockwise, `--acceptance topk`": f"{HEADS} --acceptance topk",
                "auto": HEADS.replace("blockwise", "auto"),
                "auto, int8": f"{HEADS.replace('blockwise', 'auto')} --engine-precision int8",
                "jacobi": "--decoding jacobi",
                "gs_jacobi, b = 3": "--decoding gs_jacobi --jacobi-block-size 3",
                "hybrid_jacobi, b = 3": "--decoding hybrid_jacobi --jacobi-block-size 3",
                "CTranslate2, beam 1": f"{CT2} 1",
                "CTranslate2, beam 1, int8": f"{CT2} 1 --compute-type int8",
            },
            BEAM: {
                "beam 5": "--decoding beam --beam 5",
                "beam 5, int8": "--decoding beam --beam 5 --engine-precision int8",
                "variable_beam 5": "--decoding variable_beam --beam 5",
                "streaming 5": "--decoding streaming --beam 5",
                "streaming 5, `--prune-threshold 3`": (
                    "--decoding streaming --beam 5 --prune-threshold 3"
                ),
                "CTranslate2, beam 5": f"{CT2} 5",
                "CTranslate2, beam 5, int8": f"{CT2} 5 --compute-type int8",
            },
        },
    ),
    "bundled_in_torch": Model(
        "The bundled model without compiled code",
        "All methods run in torch, as on a GPU.",
        prepare_bundled,
        TEXT,
        {1: 100, 32: 200},
        IN_TORCH,
        TO_SEARCH,
    ),
    "base_in_torch": Model(
        "Transformer base without compiled code",
        "The same model in torch.",
        prepare_base,
        FORCED,
        {1: 6, 32: 32},
        IN_TORCH,
        TO_SEARCH,
    ),
    "large": Model(
        "Lookahead on a large model",
        "The model has the translations of the bundled model and 124 million parameters: each of "
        "its vectors consists of four copies of a vector of the bundled model, and four more "
        "decoder layers have no effect. The text is the test set.",
        prepare_large,
        TEXT,
        {1: 64, 32: 64},
        LOOKAHEAD,
        TO_GREEDY,
    ),
    "repeated": Model(
        "Lookahead on text that repeats",
        "The same model. Each sentence of the text occurs twice.",
        prepare_repeated,
        TEXT,
        {1: 2 * N_REPEATED, 32: 2 * N_REPEATED},
        LOOKAHEAD,
        TO_GREEDY,
    ),
    "base": Model(
        "Transformer base",
        "Transformer base with 37,000 types and random weights; all outputs have 31 tokens, from "
        "sources of 20.",
        prepare_base,
        FORCED,
        {1: 6, 32: 32},
        {
            GREEDY: {
                **in_precisions("greedy", "--decoding greedy", PRECISIONS),
                "CTranslate2, beam 1": f"{CT2} 1",
                "CTranslate2, beam 1, int8": f"{CT2} 1 --compute-type int8",
            },
            BEAM: {
                **in_precisions("beam 5", "--decoding beam --beam 5", PRECISIONS),
                **in_precisions("streaming 5", "--decoding streaming --beam 5", PRECISIONS),
                "CTranslate2, beam 5": f"{CT2} 5",
                "CTranslate2, beam 5, int8": f"{CT2} 5 --compute-type int8",
            },
        },
    ),
}
# The values of a method that the tables are made from.
KEPT = ("bleu", "tokens_per_invocation", "seconds", "sentences")


def main() -> None:
    """Measure, and write figures and tables."""
    args = parse_args()
    figures = read_figures(FIGURES, {})
    for name in args.models:
        figures[name] = measured(args.workdir / name, MODELS[name], args)
        FIGURES.parent.mkdir(exist_ok=True)
        write_figures(FIGURES, figures)
    atomic_files.write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), figures))


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    return parser.parse_args()


def parser_of(description: Optional[str]) -> argparse.ArgumentParser:
    """A parser of the options of a comparison whose table is in docs/performance.md."""
    parser = arguments.described(description)
    parser.add_argument(
        "--machine", required=True, help="the name of this machine in docs/performance.md"
    )
    parser.add_argument("--workdir", type=Path, default=commands.ROOT / "work" / "methods")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    arguments.add_rounds(parser)
    return parser


def measured(work: Path, model: Model, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of a model, with their date, machine and commit."""
    prepare(work, model)
    batches = {}
    for size in BATCH_SIZES:
        document = commands.run_benchmark(benchmark_command(work, model, size, args), work)
        batches[str(size)] = {
            result["method"]: {key: result[key] for key in KEPT} for result in document["results"]
        }
    return {
        "date": datetime.date.today().isoformat(),
        "machine": args.machine,
        "commit": commands.commit(),
        "threads": args.threads,
        "batches": batches,
    }


def prepare(work: Path, model: Model) -> None:
    """Prepare a model in a directory, once."""
    if not commands.finished(work):
        work.mkdir(parents=True, exist_ok=True)
        model.prepare(work)
        commands.mark_finished(work)


def comparison(work: Path, model: Model, size: int, args: argparse.Namespace) -> list[Any]:
    """The options of ``benchmarks.compare`` for a prepared model and one batch size."""
    source, target = LANGUAGES
    return [
        work / "data", "-s", source, "-t", target, "--path", work / "checkpoint.pt",
        "--sentences", model.sentences[size], "--batch-size", size, "--rounds", args.rounds,
        "--threads", args.threads, *model.options,
    ]  # fmt: skip


def benchmark_command(work: Path, model: Model, size: int, args: argparse.Namespace) -> list[Any]:
    """``benchmarks.compare`` with all methods and one batch size."""
    options = comparison(work, model, size, args)
    options += ["--processes", 1, "--inter-threads", args.threads]
    methods: dict[str, str] = {}
    for reference, compared in model.methods.items():
        methods |= {reference: REFERENCES[reference], **compared}
    return commands.benchmark(options, methods, work)


def with_tables(page: str, figures: dict[str, Any]) -> str:
    """A page with the sections of all figures between their marks, ``<!-- NAME -->``."""
    for name, figure in figures.items():
        page = between_marks(page, name, section(MODELS[name], figure))
    return page


def section(model: Model, figure: dict[str, Any]) -> str:
    """The Markdown section of a model's figures."""
    batches = figure["batches"]
    n_rounds = len(next(iter(batches["1"].values()))["seconds"])
    rows = []
    for reference, methods in model.methods.items():
        for name in (reference, *methods):
            row = {"method": name}
            first = batches["1"].get(name)
            if model.options == TEXT:  # trained
                row["BLEU"] = f"{first['bleu']:.2f}" if first else ""
            n_tokens = first and first["tokens_per_invocation"]
            if reference != BEAM and n_tokens:
                row["tokens per invocation"] = f"{n_tokens:.2f}"
            else:
                row["tokens per invocation"] = ""
            for size in BATCH_SIZES:
                row[f"batch {size}"] = speed(batches[str(size)], name, reference)
            rows.append(row)
    sentences = ", ".join(
        f"{n} sentences at batch size {size}" for size, n in model.sentences.items()
    )
    return (
        f"## {model.title}\n\n{figure['date']} · machine {figure['machine']} · commit "
        f"{figure['commit']} · {COMMAND}; {sentences}, {figure['threads']} threads, {n_rounds} "
        f"alternating rounds\n\n{model.description} "
        f"{model.compared.format(threads=figure['threads'])}\n\n{untitled(rows)}\n"
    )


def speed(results: dict[str, Any], name: str, reference: str) -> str:
    """The speed of a method relative to another one; empty if one of them could not run."""
    if name not in results or reference not in results:
        return ""
    if name == reference:
        return "1.00x"
    return times_as_fast(results[name]["seconds"], results[reference]["seconds"])


if __name__ == "__main__":
    main()
