"""Figure 4 of Stern et al. (2018), speed-up against mean accepted block size, on a CPU."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.common import commands
from examples.common.en_de import text_options
from examples.common.figures import write_figures
from examples.common.model_text import LANGUAGES
from examples.common.table import origins, untitled, write_section
from examples.en_de.cells import Cell
from examples.en_de.table_1 import PAGE
from examples.engine.base import times_as_fast

FIGURES = commands.ROOT / "benchmarks" / "figure_4.json"
# The name of the section in the page.
SECTION = "figure 4"
N_SENTENCES = 200
# The options of benchmarks.compare.
ENGINES = {"compiled code": "", "torch": "--torch "}


def measured(work: Path, sizes: Mapping[Cell, float], rounds: int) -> list[dict[str, Any]]:
    """Decode sentence by sentence with the models that have heads, and those they began with.

    Args:
        work: contains the trained models.
        sizes: the mean block sizes of cells, of which those with exact acceptance are used.

    Returns:
        a figure for each model with heads: its mean block size, and the seconds of the rounds, its
        own and those of the model that it began with
    """
    cells = [cell for cell in sizes if cell.block_size > 1 and cell.acceptance == "exact"]
    source, target = LANGUAGES
    options = [
        work / "data", "-s", source, "-t", target, *text_options(work / "data" / "bpe.codes"),
        "--sentences", N_SENTENCES, "--batch-size", 1, "--rounds", rounds, "--processes", 1,
    ]  # fmt: skip
    models = dict.fromkeys(own for cell in cells for own in (cell.start, cell))
    methods = {}
    for engine, option in ENGINES.items():
        for own in models:
            method = "blockwise" if own.block_size > 1 else "greedy"
            path = work / own.model / "checkpoint_last.pt"
            methods[f"{own.model}, {engine}"] = f"{option}--decoding {method} --path {path}"
    command = commands.benchmark(options, methods, work)
    results = commands.run_benchmark(command, work)["results"]
    seconds = {result["method"]: result["seconds"] for result in results}
    return [
        {
            **cell._asdict(),
            "mean_block_size": sizes[cell],
            **commands.provenance(),
            **{
                engine: [seconds[f"{own.model}, {engine}"] for own in (cell, cell.start)]
                for engine in ENGINES
            },
        }
        for cell in cells
    ]


def write(figures: list[dict[str, Any]]) -> None:
    """Write figures to their file, and the section of the page."""
    write_figures(FIGURES, figures)
    write_section(PAGE, SECTION, section(figures))


def section(figures: list[dict[str, Any]]) -> str:
    """The table of the figures, with where they are from, by mean accepted block size."""
    lines = [
        {
            "k": str(row["block_size"]),
            "heads": row["heads"],
            "training": row["setting"],
            "mean accepted block size": f"{row['mean_block_size']:.2f}",
            **{f"speed-up, {engine}": times_as_fast(*row[engine]) for engine in ENGINES},
        }
        for row in sorted(figures, key=lambda row: row["mean_block_size"])
    ]
    return f"{origins(figures)}\n\n{untitled(lines)}\n"
