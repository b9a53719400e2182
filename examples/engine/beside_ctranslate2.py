#!/usr/bin/env python3
"""Decode with this plugin and with CTranslate2, each as fast as it can, and print the tables.

    python examples/engine/beside_ctranslate2.py                 # both models: some twenty minutes
    python examples/engine/beside_ctranslate2.py --models small --rounds 1 --sentences 20

The models are the small one that comes along (../en_de/model, without its heads) and a transformer
base with 37,000 types and random weights, whose outputs are 31 tokens long from sources of 20. Each
method is measured with one worker that has all threads, and with a worker for each thread; its
faster one counts (scripts/benchmark.py). Leave the machine to it: nothing else should run.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

import fairseq_fastdec  # noqa: F401  (registers the architectures)
from examples.common import arguments, commands
from examples.common.en_de import MODEL
from examples.common.model_text import LANGUAGES, write_test_set
from examples.common.random_base import FORCED, TYPES, save_base, write_sentences
from examples.common.stock import save_without_heads
from examples.common.table import markdown
from fairseq_fastdec.tools import atomic_files
from fairseq_fastdec.tools.command_line import positive

BATCH_SIZES = (1, 32)
SEARCHES = {"greedy": 1, "beam 5": 5}
PRECISIONS = {
    "fp32": ([], []),
    "int8": (["--engine-precision", "int8"], ["--compute-type", "int8"]),
}
OURS, THEIRS = "ours", "CTranslate2"


class Model(NamedTuple):
    """A model to compare on.

    Attributes:
        title: of its table.
        prepare: fills a directory with ``data`` and ``checkpoint.pt``.
        options: of scripts/benchmark.py besides the data and the checkpoint.
        sentences: how many are decoded.
    """

    title: str
    prepare: Callable[[Path], None]
    options: list[str]
    sentences: int


def main() -> None:
    """Prepare, measure, print."""
    args = parse_args()
    tables = []
    for name in args.models:
        model = MODELS[name]
        work = args.workdir / name
        if not commands.finished(work):
            work.mkdir(parents=True, exist_ok=True)
            model.prepare(work)
            commands.mark_finished(work)
        n_sentences = args.sentences or model.sentences
        command = benchmark_command(work, model.options, n_sentences, args.rounds, args.threads)
        document = commands.run_benchmark(command, work / "result")
        tables.append(table(model.title, document))
    text = "\n\n".join(tables) + "\n"
    atomic_files.write_text(args.workdir / "tables.md", text)
    print("\n" + text)


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--workdir", type=Path, default=Path("work/beside_ctranslate2"))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    parser.add_argument(
        "--sentences", type=positive, metavar="N",
        help="(default: "
        + ", ".join(f"{model.sentences} of {name}" for name, model in MODELS.items()) + ")",
    )  # fmt: skip
    return parser.parse_args()


def prepare_small(work: Path) -> None:
    """The test set of ../en_de in its model's subwords, and that model as a stock transformer."""
    write_test_set(work / "data", MODEL)
    save_without_heads(MODEL / "checkpoint.pt", work / "checkpoint.pt")


def prepare_base(work: Path) -> None:
    """Random sentences, and a transformer base as it is before training."""
    write_sentences(work / "data", LANGUAGES)
    save_base(work / "checkpoint.pt", LANGUAGES, seed=1)


def benchmark_command(
    work: Path, options: list[str], n_sentences: int, n_rounds: int, n_threads: int
) -> list[Any]:
    """scripts/benchmark.py with all methods."""
    source, target = LANGUAGES
    command = [
        *commands.script("benchmark.py"), work / "data", "-s", source,
        "-t", target, "--path", work / "checkpoint.pt", "--device", "cpu",
        "--sentences", n_sentences, "--batch-size", *BATCH_SIZES, "--rounds", n_rounds,
        "--threads", n_threads, "--output", work / "result", *options,
    ]  # fmt: skip
    for search, beam in SEARCHES.items():
        decoding = "greedy" if beam == 1 else "beam"
        for precision, (own, theirs) in PRECISIONS.items():
            own = ["--decoding", decoding, "--beam", str(beam), *own]
            theirs = ["--engine", "ctranslate2", "--beam", str(beam), *theirs]
            for engine, words in ((OURS, own), (THEIRS, theirs)):
                command += ["--method", f"{engine}, {search}, {precision}: {' '.join(words)}"]
    return command


def table(title: str, document: dict[str, Any]) -> str:
    """Markdown of what ``benchmark.json`` holds: a row for each search, batch size, precision."""
    results = {(own["method"], own["batch_size"]): own for own in document["results"]}
    rows = []
    for search in SEARCHES:
        for size in BATCH_SIZES:
            for precision in PRECISIONS:
                own, theirs = (
                    results.get((f"{engine}, {search}, {precision}", size))
                    for engine in (OURS, THEIRS)
                )
                if own and theirs:
                    rows.append({"": f"{search}, batch {size}, {precision}", **beside(own, theirs)})
    if not rows:
        reasons = "; ".join(f"{name}: {why}" for name, why in document["left_out"].items())
        sys.exit(f"nothing to compare: {reasons}")
    threads, n_rounds = document["settings"]["threads"], len(document["results"][0]["seconds"])
    n_sentences, processor = document["results"][0]["sentences"], document["processor"]
    title += (
        f"; {n_sentences} sentences, {threads} threads of {processor}, medians of {n_rounds} "
        "alternating rounds. Seconds, and in brackets workers x threads where they were fastest:"
    )
    return markdown(title, rows)


def beside(own: dict[str, Any], theirs: dict[str, Any]) -> dict[str, str]:
    """The cells of two methods in their best settings."""
    ratios = [ours / other for ours, other in zip(own["seconds"], theirs["seconds"])]
    ahead = OURS if statistics.median(ratios) < 1 else THEIRS
    return {
        OURS: f"{statistics.median(own['seconds']):.2f} ({own['division']})",
        THEIRS: f"{statistics.median(theirs['seconds']):.2f} ({theirs['division']})",
        "ours to CTranslate2": f"{statistics.median(ratios):.2f}",
        "ahead": ahead,
    }


MODELS = {
    "small": Model(
        "The bundled model (4.2 million parameters, 4,120 types)",
        prepare_small,
        ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes",
         str(MODEL / "bpe.codes")],
        200,
    ),
    "base": Model(
        f"Transformer base, {TYPES:,} types, random weights, 31 tokens from 20",
        prepare_base,
        FORCED,
        64,
    ),
}  # fmt: skip


if __name__ == "__main__":
    main()
