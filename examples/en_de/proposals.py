#!/usr/bin/env python3
"""Measure the cost and gain of an invocation by the number of verified proposals.

    python examples/en_de/proposals.py                     # the bundled model: some minutes
    python examples/en_de/proposals.py --decoder-layers 6  # the same in a deeper model

Compares greedy decoding with chains of the bundled model's heads, in fp32 and int8, one
sentence at a time, in alternating rounds of benchmarks.compare. It prints a table and draws
``proposals.png``: tokens against milliseconds per invocation. Points above the line of greedy
decoding are faster than greedy. Layers added by --decoder-layers only change the time, not
translations or heads, so the table shows the gain of such heads for a base of that depth. Run
nothing else on the machine.
"""

import argparse
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from examples.common import arguments, commands
from examples.common.deeper import deepened, rewrite
from examples.common.en_de import MODEL, text_options
from examples.common.model_text import LANGUAGES, write_test_set
from examples.common.table import markdown
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

PRECISIONS = {"fp32": "model", "int8": "int8"}
GREEDY = "greedy"
# The number of decoder layers of the bundled model.
OWN_LAYERS = 2
# Whole chains, or without improbable proposals; measured times have no influence.
WHOLE, LIKELY = "--proposal-confidence 0", "--proposal-confidence 0.5"
METHODS = {
    GREEDY: "--decoding greedy",
    **{
        f"chain of {n}": f"--decoding blockwise --decoding-block-size {n + 1} {WHOLE}"
        for n in (1, 2, 3, 5, 7)
    },
    "chain of up to 3": f"--decoding blockwise --decoding-block-size 4 {LIKELY}",
    "chain of up to 7": f"--decoding blockwise {LIKELY}",
}


class Point(NamedTuple):
    """A method in one precision.

    Attributes:
        tokens: per invocation.
        milliseconds: per invocation in the median round, including the encoder.
        times_as_fast: relative to greedy in the same precision, the median of the rounds.
    """

    method: str
    precision: str
    tokens: float
    milliseconds: float
    times_as_fast: float


def main() -> None:
    """Measure, print, draw."""
    args = parse_args()
    prepare(args)
    document = commands.run_benchmark(benchmark_command(args), args.workdir / "result")
    points = points_of(document)
    text = table(document, points, args.decoder_layers)
    atomic_files.write_text(args.workdir / "table.md", text + "\n")
    draw(points, args.workdir / "proposals.png")
    print("\n" + text)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--workdir", type=Path, default=commands.ROOT / "work/en_de_proposals")
    parser.add_argument("--sentences", type=positive, default=300, metavar="N")
    parser.add_argument("--decoder-layers", type=positive, default=OWN_LAYERS, metavar="N")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    arguments.add_rounds(parser)
    return parser.parse_args()


def prepare(args: argparse.Namespace) -> None:
    """Write the test set and the model."""
    args.workdir.mkdir(parents=True, exist_ok=True)
    if not commands.finished(args.workdir / "data"):
        write_test_set(args.workdir / "data", MODEL)
        commands.mark_finished(args.workdir / "data")
    n_layers = args.decoder_layers
    rewrite(MODEL / "checkpoint.pt", checkpoint(args), partial(deepened, n_layers=n_layers))


def checkpoint(args: argparse.Namespace) -> Path:
    """The path of the model."""
    return args.workdir / f"{args.decoder_layers}_layers.pt"


def benchmark_command(args: argparse.Namespace) -> list[Any]:
    """``benchmarks.compare`` with all methods."""
    source, target = LANGUAGES
    options = [
        args.workdir / "data", "-s", source, "-t", target, "--path", checkpoint(args),
        *text_options(MODEL / "bpe.codes"), "--sentences", args.sentences,
        "--rounds", args.rounds, "--threads", args.threads, "--processes", 1,
    ]  # fmt: skip
    methods = {
        f"{name}, {precision}": f"{own} --engine-precision {value}"
        for precision, value in PRECISIONS.items()
        for name, own in METHODS.items()
    }
    return commands.benchmark(options, methods, args.workdir / "result")


def points_of(document: dict[str, Any]) -> list[Point]:
    """All methods of ``benchmark.json``."""
    results = {own["method"]: own for own in document["results"]}
    return [_point(name, precision, results) for name in METHODS for precision in PRECISIONS]


def _point(name: str, precision: str, results: dict[str, dict[str, Any]]) -> Point:
    own, greedy = (results[f"{method}, {precision}"] for method in (name, GREEDY))
    ratios = [theirs / ours for ours, theirs in zip(own["seconds"], greedy["seconds"])]
    return Point(
        name,
        precision,
        own["tokens_per_invocation"],
        1000 * statistics.median(own["seconds"]) / own["invocations"],
        statistics.median(ratios),
    )


def table(document: dict[str, Any], points: Sequence[Point], n_layers: int) -> str:
    """A Markdown table with a row for each method."""
    first = document["results"][0]
    n_threads, processor = document["settings"]["threads"], document["processor"]
    title = (
        f"The bundled model with {n_layers} decoder layers, {first['sentences']} test sentences "
        f"one at a time, {n_threads} threads of {processor}, medians of {len(first['seconds'])} "
        "alternating rounds."
    )
    by_place = {(point.method, point.precision): point for point in points}
    rows = []
    for name in METHODS:
        row = {"proposals": name}
        for precision in PRECISIONS:
            point = by_place[name, precision]
            row[f"tokens an invocation, {precision}"] = f"{point.tokens:.2f}"
            row[f"ms an invocation, {precision}"] = f"{point.milliseconds:.3f}"
            row[f"to greedy, {precision}"] = f"{point.times_as_fast:.2f}x"
        rows.append(row)
    return markdown(title, rows)


def draw(points: Sequence[Point], path: Path) -> None:
    """Plot tokens against milliseconds per invocation, with a panel for each precision."""
    # Imported here, since the table needs no matplotlib.
    from benchmarks.compare.figure import DPI, Figure, FigureCanvasAgg

    figure = Figure(figsize=(10, 4.5), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(PRECISIONS), squeeze=False, sharey=True)[0]
    for panel, precision in zip(panels, PRECISIONS):
        shown = [point for point in points if point.precision == precision]
        (greedy,) = (point for point in shown if point.method == GREEDY)
        panel.axline((0, 0), slope=greedy.tokens / greedy.milliseconds, color="#6b6b6b", lw=1)
        for point in shown:
            panel.plot(point.milliseconds, point.tokens, "o", color="#1f5fbf", markersize=5)
            panel.annotate(
                point.method, (point.milliseconds, point.tokens), (4, -3),
                textcoords="offset points", fontsize=7,
            )  # fmt: skip
        panel.set_xlim(0, 1.25 * max(point.milliseconds for point in shown))
        panel.set_title(precision)
        panel.set_xlabel("milliseconds an invocation")
    panels[0].set_ylabel("tokens an invocation")
    panels[0].set_ylim(0)
    with atomic_files.replacing(path) as unfinished:
        figure.savefig(unfinished, format="png")


if __name__ == "__main__":
    main()
