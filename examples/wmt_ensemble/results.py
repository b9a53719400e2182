"""The paper's Table 1, from the files of the runs of fairseq-generate."""

import re
import statistics
from dataclasses import dataclass
from pathlib import Path

from examples.common.table import (
    SCORER,
    checksum,
    markdown,
    numbered,
    shortened,
    signed,
    translated_line,
)
from fairseq_fastdec.data import atomic_files

COLUMNS = ("method", "BLEU", "wall clock (s)", "speed-up", "outputs")


@dataclass
class Run:
    """One round of one method."""

    bleu: float
    seconds: float
    sha256: str  # of the translations


def read_run(output: Path, reference: list[str]) -> Run:
    """BLEU of the detokenised hypotheses, and the seconds reported by fairseq-generate."""
    results = (output / "generate-test.txt").read_text(encoding="utf-8")
    translations = numbered(r"D-(\d+)\t[^\t\n]*", results)
    seconds = re.search(r" in ([\d.]+)s", translated_line(output)).group(1)
    bleu = SCORER.score(translations, dict(enumerate(reference)))
    return Run(bleu, float(seconds), checksum(translations))


def show_table(work: Path, runs: dict[str, list[Run]], baseline: str, title: str) -> None:
    """Print the table, and write it as Markdown.

    Args:
        runs: the rounds of each method, in order.
        baseline: the reference for speed-ups; if it is not in ``runs``, there are none.
    """
    rows = []
    for method, rounds in runs.items():
        seconds = [run.seconds for run in rounds]
        spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
        speed_up = "-"
        if baseline in runs:
            ratios = [theirs.seconds / own.seconds for own, theirs in zip(rounds, runs[baseline])]
            speed_up = f"{statistics.median(ratios):.2f}x"
        wall_clock = f"{statistics.mean(seconds):.1f} ± {spread:.1f}"
        outputs = shortened(rounds[0].sha256)
        values = (method, f"{rounds[0].bleu:.2f}", wall_clock, speed_up, outputs)
        rows.append(dict(zip(COLUMNS, values)))
    text = markdown(signed(title), rows)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")
