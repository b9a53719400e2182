"""Table 2 of Imamura and Sumita (WAT 2020) beside ours, in examples/RESULTS.md."""

import statistics
from pathlib import Path
from typing import Any, Optional

from examples.common import commands
from examples.common.en_de import TEST_TEXT
from examples.common.figures import write_figures
from examples.common.significance import differs
from examples.common.table import checksum, mean, origins, signed, untitled
from examples.common.training_text import read

from . import table_3
from .comparison import Decoded, Groups, rate_of_tokens, rounds_of
from .models import BASELINE, MARKED, METHODS, PROPOSED, RIGHT_TO_LEFT, UNIDIRECTIONAL

PAGE = commands.ROOT / "examples" / "RESULTS.md"
FIGURES = commands.ROOT / "benchmarks" / "double_token.json"
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


def record(decoded: list[Decoded], text: Path) -> list[dict[str, Any]]:
    """Write the figures of all seeds to the file; returns them.

    Args:
        text: the references in subwords, for Table 3.
    """
    references, lines = dict(enumerate(read(text))), read(TEST_TEXT)
    figures = []
    for beam in dict.fromkeys(run.beam for run in decoded if run.batch_size == BATCH_SIZE):
        groups = rounds_of(decoded, beam, BATCH_SIZE)
        for method in dict.fromkeys(method for method, _ in groups):
            seeds = [
                figures_of(groups[method, seed], groups[BASELINE, seed], references)
                for one, seed in groups
                if one == method
            ]
            marks = marks_of(method, groups, lines)
            figures.append({"method": method, "beam": beam, "marks": marks, "seeds": seeds})
    write_figures(FIGURES, figures)
    return figures


def figures_of(
    rounds: list[Decoded], baseline: list[Decoded], references: dict[int, str]
) -> dict[str, Any]:
    """The figures of one method with one seed."""
    run = rounds[0]
    steps = {} if run.steps is None else {"steps": round(run.steps / baseline[0].steps, 3)}
    in_table_3 = run.beam == BEAM and run.method in (BASELINE, PROPOSED)
    return {
        "seed": run.seed,
        "bleu": round(run.bleu, 2),
        **steps,
        "tokens_per_second": round(rate_of_tokens(rounds, baseline), 3),
        **(table_3.precisions(run.hypotheses, references) if in_table_3 else {}),
        "sha256": checksum(run.translations),
        **commands.origin(run.output),
    }


def marks_of(method: str, groups: Groups, lines: list[str]) -> str:
    """The methods from which BLEU differs significantly, over the seeds that both have."""
    model_of = {method.title: method.model for method in METHODS}
    marks = ""
    for mark, than in MARKED.items():
        seeds = [seed for one, seed in groups if one == method and (than, seed) in groups]
        own, base = (
            [groups[title, seed][0].translations for seed in seeds] for title in (method, than)
        )
        # Methods of the same model are excluded, since the test finds even one different sentence
        # significant.
        if model_of[method] != model_of[than] and differs(own, base, lines):
            marks += mark
    return marks


def section(figures: list[dict[str, Any]]) -> str:
    """The table of all figures, with where they are from."""
    legend = ", ".join(f"{mark} {title}" for mark, title in MARKED.items())
    title = (
        "Means and standard deviations over seeds. Ratios: to single-token L2R.\n"
        f"BLEU differs significantly from {legend}:\n"
        "approximate randomisation over the sentences of the seeds that both have, p < 0.05."
    )
    titles = dict.fromkeys([*THE_PAPER, *(row["method"] for row in figures)])
    lines = [line(title, figures) for title in titles]
    seeds = [seed for row in figures for seed in row["seeds"]]
    return f"{origins(seeds)}\n\n{signed(title)}\n\n{untitled(lines)}\n"


def line(title: str, figures: list[dict[str, Any]]) -> dict[str, str]:
    """One line of the table."""
    paper, papers_rate = THE_PAPER.get(title, ("", ""))
    by_beam = {row["beam"]: row for row in figures if row["method"] == title}
    wide = by_beam[BEAM]["seeds"] if by_beam else []
    return {
        "method": title,
        "seeds": str(len(wide)) if wide else "not trained",
        "the paper: BLEU": paper,
        **{f"BLEU, beam {beam}": bleu(by_beam.get(beam)) for beam in (BEAM, 1)},
        "steps": median(wide, "steps"),
        "the paper: tokens/s": papers_rate,
        "tokens/s": median(wide, "tokens_per_second"),
    }


def bleu(row: Optional[dict[str, Any]]) -> str:
    """BLEU of all seeds, with the marks; empty without figures."""
    if row is None:
        return ""
    return f"{mean([seed['bleu'] for seed in row['seeds']])} {row['marks']}".rstrip()


def median(seeds: list[dict[str, Any]], name: str) -> str:
    """The median of a figure over seeds; empty if there is none."""
    values = [seed[name] for seed in seeds if name in seed]
    return f"{statistics.median(values):.2f}" if values else ""
