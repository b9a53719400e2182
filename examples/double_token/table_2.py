"""Table 2 of Imamura and Sumita (WAT 2020) beside ours, in examples/RESULTS.md."""

import statistics
from typing import Any

from examples.common import commands
from examples.common.figures import add_figures
from examples.common.table import checksum, mean, origins, signed, untitled, write_section

from .comparison import LEGEND, Decoded, by_title, marks_of, rate_of_tokens
from .models import BASELINE, MARKED, PROPOSED, RIGHT_TO_LEFT, UNIDIRECTIONAL

PAGE = commands.ROOT / "examples" / "RESULTS.md"
FIGURES = commands.ROOT / "benchmarks" / "double_token_table_2.json"
KEY = ("method", "seed", "beam")  # of a row
# The name of the section in the page.
SECTION = "double-token table 2"
# The paper's batch size, and its beam width.
BATCH_SIZE, BEAM = 32, 10
# BLEU, and tokens per second relative to the first row: the paper's base models on WMT14 en-de.
THE_PAPER = {
    BASELINE: ("26.45 ‡", "1.00"),
    RIGHT_TO_LEFT: ("25.79 †", "1.00"),
    PROPOSED: ("25.62 †‡", "1.13"),
    UNIDIRECTIONAL: ("24.55 †‡", "1.18"),
    "Double-token R2L": ("24.43 †‡", "1.17"),
    "Mask-Predict (10 iterations)": ("22.31 †‡", "0.78"),
    "Mask-Predict (4 iterations)": ("19.62 †‡", "1.46"),
}


def record(decoded: list[Decoded], seed: int) -> list[dict[str, Any]]:
    """Add the runs of one seed's models to the file of figures; returns all figures."""
    rows = []
    for beam in dict.fromkeys(run.beam for run in decoded if run.batch_size == BATCH_SIZE):
        groups = by_title(decoded, beam, BATCH_SIZE)
        marks = marks_of(groups)
        rows += [
            {
                "method": title,
                "seed": seed,
                "beam": beam,
                **row_of(group, groups[BASELINE]),
                "marks": marks[title],
                **commands.origin(group[0].output),
            }
            for title, group in groups.items()
        ]
    return add_figures(FIGURES, rows, KEY)


def row_of(group: list[Decoded], baseline: list[Decoded]) -> dict[str, Any]:
    """The figures of one method."""
    run = group[0]
    steps = {} if run.steps is None else {"steps": round(run.steps / baseline[0].steps, 3)}
    return {
        "bleu": round(run.bleu, 2),
        **steps,
        "tokens_per_second": round(rate_of_tokens(group, baseline), 3),
        "sha256": checksum(dict(enumerate(run.translations))),
    }


def write(figures: list[dict[str, Any]]) -> None:
    """Write the section of the page."""
    write_section(PAGE, SECTION, section(figures))


def section(figures: list[dict[str, Any]]) -> str:
    """The table of all figures, with where they are from."""
    title = (
        "Means and standard deviations over seeds. Ratios: to single-token L2R.\n"
        "With every seed that both have, BLEU differs significantly from\n"
        f"{LEGEND}"
    )
    titles = dict.fromkeys([*THE_PAPER, *(row["method"] for row in figures)])
    lines = [line(title, figures) for title in titles]
    return f"{origins(figures)}\n\n{signed(title)}\n\n{untitled(lines)}\n"


def line(title: str, figures: list[dict[str, Any]]) -> dict[str, str]:
    """One line of the table."""
    paper, papers_rate = THE_PAPER.get(title, ("", ""))
    wide = of_method(title, BEAM, figures)
    return {
        "method": title,
        "seeds": str(len(wide)) if wide else "not trained",
        "the paper: BLEU": paper,
        **{f"BLEU, beam {beam}": bleu(title, beam, figures) for beam in (BEAM, 1)},
        "steps": median(wide, "steps"),
        "the paper: tokens/s": papers_rate,
        "tokens/s": median(wide, "tokens_per_second"),
    }


def of_method(title: str, beam: int, figures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures of one method with one beam width."""
    return [row for row in figures if (row["method"], row["beam"]) == (title, beam)]


def bleu(title: str, beam: int, figures: list[dict[str, Any]]) -> str:
    """BLEU of all seeds, with the marks of all seeds in which both methods were decoded."""
    rows = of_method(title, beam, figures)
    if not rows:
        return ""
    shared = ""
    for mark, than in MARKED.items():
        seeds = {row["seed"] for row in of_method(than, beam, figures)}
        compared = [mark in row["marks"] for row in rows if row["seed"] in seeds]
        shared += mark * (any(compared) and all(compared))
    return f"{mean([row['bleu'] for row in rows])} {shared}".rstrip()


def median(figures: list[dict[str, Any]], name: str) -> str:
    """The median of a figure over seeds; empty if there is none."""
    values = [row[name] for row in figures if name in row]
    return f"{statistics.median(values):.2f}" if values else ""
