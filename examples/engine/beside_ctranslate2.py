#!/usr/bin/env python3
"""Compare the speed of this plugin and CTranslate2, each in its fastest setting.

    python examples/engine/beside_ctranslate2.py                 # both models: about twenty minutes
    python examples/engine/beside_ctranslate2.py --models small --rounds 1 --sentences 20

The models are the small bundled one (../en_de/model, without its heads) and a transformer base with
37,000 types and random weights, with outputs of 31 tokens and sources of 20. Each method is
measured with one worker with all threads, and with one worker per thread; the faster one counts
(scripts/benchmark.py). Run nothing else on the machine.
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
        title: the title of its table.
        prepare: writes ``data`` and ``checkpoint.pt`` to a directory.
        options: options of scripts/benchmark.py, except data and checkpoint.
        sentences: the number of sentences decoded.
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
    """Parse the command line."""
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
    """Write the test set of ../en_de in the model's subwords, and the model without heads."""
    write_test_set(work / "data", MODEL)
    save_without_heads(MODEL / "checkpoint.pt", work / "checkpoint.pt")


def prepare_base(work: Path) -> None:
    """Write random sentences, and a transformer base with random weights."""
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
    """A Markdown table from ``benchmark.json``, with a row per search, batch size and precision."""
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
    """The cells for two methods in their best settings."""
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
        "The bundled model (5.3 million parameters, 4,120 types)",
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
