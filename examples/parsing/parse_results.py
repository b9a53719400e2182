"""Tables 2 and 6 of the streaming paper, from the output files of fairseq-generate."""

import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common.table import (
    checksum,
    log_lines,
    markdown,
    numbered,
    shortened,
    tokens_and_seconds,
)
from examples.parsing.scores import Scores, score
from fairseq_fastdec.data import atomic_files

COLUMNS = (
    "method",
    "exact match",
    "F1",
    "oracle: exact match",
    "oracle: F1",
    "seconds",
    "time",
    "timesteps",
    "expansions",
    "expansions a step",
    "outputs",
)


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


def show_table(work: Path, runs: dict[str, list[Run]], reference: str, title: str) -> None:
    """Print the table, and write it as Markdown.

    Args:
        runs: the rounds of each method, in order.
        reference: the method with which times are compared.
    """
    rows = [row_of(method, rounds, runs[reference]) for method, rounds in runs.items()]
    text = markdown(title, rows)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")


def row_of(method: str, rounds: list[Run], reference: list[Run]) -> dict[str, str]:
    """One line of the table."""
    first = rounds[0]
    scores = first.scores
    ratios = [own.seconds / theirs.seconds for own, theirs in zip(rounds, reference)]
    counts = ("-", "-", "-")
    if first.timesteps and first.expansions:
        rate = first.expansions / first.timesteps
        counts = (str(first.timesteps), str(first.expansions), f"{rate:.1f}")
    values = (
        method,
        *(
            f"{value:.1f}"
            for value in (scores.exact, scores.f1, scores.oracle_exact, scores.oracle_f1)
        ),
        f"{statistics.median(run.seconds for run in rounds):.1f}",
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        *counts,
        shortened(first.sha256),
    )
    return dict(zip(COLUMNS, values))
