"""Tables 2, 6 and 7 of the streaming paper, and ours from fairseq-generate's output files."""

import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common.table import (
    checksum,
    log_lines,
    numbered,
    shortened,
    tokens_and_seconds,
    untitled,
)
from examples.parsing.scores import Scores, score

COLUMNS = (
    "method",
    "data",
    "F1 / oracle",
    "exact match / oracle",
    "time, to FIXED",
    "timesteps",
    "expansions",
    "expansions a step",
    "outputs",
)
# Tables 2, 6 and 7 of the paper: F1 / oracle, time relative to FIXED, timesteps, expansions, and
# expansions a step.
METHODS = ("GREEDY", "FIXED", "VAR-BATCH", "VAR-STREAM")
THE_PAPER = {
    "ATIS": (
        ("86.4 / 86.4", "0.18", "", "", "46.5"),
        ("86.6 / 91.2", "1.00", "", "", "48.0"),
        ("86.6 / 90.2", "1.06", "", "", "16.9"),
        ("86.6 / 90.2", "0.82", "", "", "72.1"),
    ),
    "Penn Treebank": (
        ("91.3 / 91.3", "0.10", "", "", "86.7"),
        ("91.2 / 94.0", "1.00", "", "", "97.1"),
        ("91.2 / 93.8", "1.05", "", "", "48.2"),
        ("91.2 / 93.8", "0.98", "", "", "95.7"),
    ),
    "JOBS": (
        ("87.1 / 87.1", "0.28", "136", "2715", "20.0"),
        ("87.1 / 90.0", "1.00", "705", "27781", "39.4"),
        ("87.1 / 89.3", "0.97", "585", "5071", "8.7"),
        ("87.1 / 89.3", "0.62", "126", "5071", "40.2"),
    ),
    "GEO": (
        ("82.5 / 82.5", "0.21", "138", "5492", "39.8"),
        ("82.5 / 89.3", "1.00", "1469", "57550", "39.2"),
        ("82.5 / 89.6", "1.05", "1344", "14154", "10.5"),
        ("82.5 / 89.6", "0.65", "248", "14154", "57.1"),
    ),
}


@dataclass
class Run:
    """One round of one method.

    Attributes:
        timesteps: decoder calls for batches; ``None`` for fairseq's search, which does not count
            them.
        expansions: the total number of rows; ``None`` likewise.
        sha256: of the best parses.
    """

    scores: Scores
    seconds: float
    timesteps: Optional[int]
    expansions: Optional[int]
    sha256: str


def read_run(output: Path) -> Run:
    """Read the output of fairseq-generate in ``output``."""
    results = (output / "generate-test.txt").read_text(encoding="utf-8")
    log = "\n".join(log_lines(output))
    counted = re.search(r" (\d+) decoder invocations, (\d+) row invocations", log)
    timesteps, expansions = map(int, counted.groups()) if counted else (None, None)
    parses = all_parses(results)
    scores = score(parses, numbered(r"T-(\d+)", results))
    best = checksum({number: own[0] for number, own in parses.items()})
    return Run(scores, tokens_and_seconds(output)[1], timesteps, expansions, best)


def all_parses(results: str) -> dict[int, list[str]]:
    """All hypotheses of each sentence, best first, by sentence number."""
    parses: dict[int, list[str]] = {}
    for number, parse in re.findall(r"(?m)^H-(\d+)\t[^\t\n]*\t(.*)$", results):
        parses.setdefault(int(number), []).append(parse)
    return parses


def table(runs: dict[str, list[Run]], reference: str) -> str:
    """The paper's rows and ours.

    Args:
        runs: the rounds of each method, in order.
        reference: the method with which times are compared.
    """
    ours = [row_of(method, rounds, runs[reference]) for method, rounds in runs.items()]
    return untitled([*papers_rows(), *ours])


def papers_rows() -> list[dict[str, str]]:
    """Tables 2, 6 and 7 of the paper."""
    return [
        dict(zip(COLUMNS, (method, f"paper: {data}", cells[0], "", *cells[1:], "")))
        for data, lines in THE_PAPER.items()
        for method, cells in zip(METHODS, lines)
    ]


def row_of(method: str, rounds: list[Run], reference: list[Run]) -> dict[str, str]:
    """The row of a method of ours."""
    first = rounds[0]
    scores = first.scores
    ratios = [own.seconds / theirs.seconds for own, theirs in zip(rounds, reference)]
    counts = ("", "", "")
    if first.timesteps and first.expansions:
        rate = first.expansions / first.timesteps
        counts = (str(first.timesteps), str(first.expansions), f"{rate:.1f}")
    values = (
        method,
        "ours",
        f"{scores.f1:.1f} / {scores.oracle_f1:.1f}",
        f"{scores.exact:.1f} / {scores.oracle_exact:.1f}",
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        *counts,
        shortened(first.sha256),
    )
    return dict(zip(COLUMNS, values))
