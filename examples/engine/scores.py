#!/usr/bin/env python3
"""Compare the scores of given targets with fairseq's scorer, on one core.

    python examples/engine/scores.py --machine A    # ten minutes

The pairs of the test set are scored with the bundled model, from text: both sides are tokenised by
all methods. They take turns: fairseq's SequenceScorer, and bundles in each precision, pair by pair
and in batches; then whole commands, with start-up: ``fairseq-generate --score-reference``, whose
data is binarised before, and ``python -m fairseq_fastdec score``. All times are those that the
processor has computed, since each method uses one core. The figures are written to
``benchmarks/scores.json``, and a table is printed.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import fairseq_fastdec
from examples.common import arguments, commands
from examples.common.en_de import EN_DE, MODEL
from examples.common.figures import write_figures
from examples.common.model_text import LANGUAGES
from examples.common.table import markdown
from examples.engine import whole_commands
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.command_line import positive

FIGURES = commands.ROOT / "benchmarks" / "scores.json"
THEIRS = "fairseq"
PRECISIONS = ("fp32", "int8")
# Scores of fairseq in the same precision may differ by this.
EXACT = 1e-5


def main() -> None:
    """Measure, write the figures, and print the table."""
    args = parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    torch.set_num_threads(1)
    pairs = texts_of(args.sentences)
    with tempfile.TemporaryDirectory() as directory:
        bundles = exported(Path(directory))
        runs = {
            f"batch {size}": calls(bundles, size, pairs[: args.alone] if size == 1 else pairs)
            for size in args.batch_size
        }
        runs["command"] = whole(bundles, Path(directory))
        seconds = {name: timed(own, args.rounds) for name, own in runs.items()}
    figures = {
        "machine": args.machine,
        **commands.provenance(),
        "sentences": {"batch 1": len(pairs[: args.alone]), "others": len(pairs)},
        "seconds": seconds,
        "ratios": {name: ratios(own) for name, own in seconds.items()},
    }
    write_figures(args.output, figures)
    print("\n" + markdown(f"Times fairseq's speed, {args.rounds} rounds", rows(figures["ratios"])))


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    arguments.add_rounds(parser)
    parser.add_argument("--machine", required=True, metavar="NAME")
    parser.add_argument("--sentences", type=positive, default=500, metavar="N",
        help="pairs that are scored in batches (default: 500)")  # fmt: skip
    parser.add_argument("--alone", type=positive, default=200, metavar="N",
        help="pairs that are scored one by one (default: 200)")  # fmt: skip
    parser.add_argument("--batch-size", type=positive, nargs="+", default=[1, 32, 128], metavar="N")
    parser.add_argument("--output", type=Path, default=FIGURES, metavar="FILE")
    return parser.parse_args()


def texts_of(n: Any) -> list[tuple[str, str]]:
    """The first n pairs of the test set."""
    sides = [
        (EN_DE / "data" / f"test.{language}").read_text(encoding="utf-8").splitlines()
        for language in LANGUAGES
    ]
    return list(zip(*sides))[:n]


def exported(directory: Path) -> dict[str, Path]:
    """Bundles of the model, by precision."""
    bundles = {precision: directory / f"{precision}.fastdec" for precision in PRECISIONS}
    for precision, path in bundles.items():
        export(fairseq_fastdec.load(MODEL, engine_precision=precision), path)
    return bundles


def calls(
    bundles: dict[str, Path], batch_size: int, pairs: Sequence[tuple[str, str]]
) -> dict[str, Callable[[], Any]]:
    """Functions that score the pairs, by method.

    Raises:
        ValueError: if the scores in fp32 are not fairseq's.
    """
    theirs = fairseq_fastdec.load(MODEL, decoding="fairseq", batch_size=batch_size)
    translators = {THEIRS: theirs}
    for precision, path in bundles.items():
        translators[precision] = fairseq_fastdec.load(path)
        translators[precision].schedule(threads=1, batch_size=batch_size)

    def call(translator: Any) -> list[float]:
        if batch_size == 1:
            return [translator.score(*pair) for pair in pairs]
        return translator.score(*zip(*pairs))

    made = {name: lambda own=own: call(own) for name, own in translators.items()}
    differences = (abs(one - other) for one, other in zip(made[THEIRS](), made["fp32"]()))
    if (largest := max(differences)) > EXACT:
        raise ValueError(f"fp32: a score differs from fairseq's by {largest}")
    return made


def whole(bundles: dict[str, Path], directory: Path) -> dict[str, Callable[[], Any]]:
    """Functions that run whole commands with all pairs, by method."""
    whole_commands.prepare(directory, 1)
    made, names = {}, {}
    for language, lines in zip(LANGUAGES, zip(*texts_of(None))):
        names[language] = directory / f"text.{language}"
        names[language].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sides = ["--source", names["en"], "--target", names["de"]]
    job = whole_commands.Job("generate", ["--score-reference"], [])
    words = whole_commands.command_of(directory, job, whole_commands.STOCK)
    made[THEIRS] = lambda: whole_commands.run(words, True)
    for precision, bundle in bundles.items():
        own = [sys.executable, "-m", "fairseq_fastdec", "score", bundle, *sides]
        made[precision] = lambda own=own: subprocess.run(own, check=True, capture_output=True)
    return made


def timed(methods: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The seconds of computation of each method in each round; the methods take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for call in methods.values():
        call()
    for _ in range(rounds):
        for name, call in methods.items():
            before = computed()
            call()
            seconds[name].append(computed() - before)
    return seconds


def computed() -> float:
    """The seconds that this process and its children have computed."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ratios(seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    """fairseq's time divided by each method's: median, minimum and maximum of the rounds."""
    found = {}
    for name, own in seconds.items():
        of_rounds = [theirs / ours for theirs, ours in zip(seconds[THEIRS], own)]
        three = (statistics.median(of_rounds), min(of_rounds), max(of_rounds))
        found[name] = [round(ratio, 2) for ratio in three]
    return found


def rows(of_runs: dict[str, dict[str, list[float]]]) -> list[dict[str, str]]:
    """The rows of the table."""
    return [
        {
            "method": method,
            **{
                name: "{:.2f}x ({:.2f} to {:.2f})".format(*own[method])
                for name, own in of_runs.items()
            },
        }
        for method in (THEIRS, *PRECISIONS)
    ]


if __name__ == "__main__":
    main()
