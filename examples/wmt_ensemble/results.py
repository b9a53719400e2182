"""The paper's Table 1, from the files of the runs of fairseq-generate."""

import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common import commands
from examples.common.significance import differs
from examples.common.table import (
    SCORER,
    checksum,
    markdown,
    numbered,
    read_lines,
    shortened,
    signed,
    tokens_and_seconds,
)

COLUMNS = ("method", "BLEU", "wall clock (s)", "speed-up", "outputs")


@dataclass
class Run:
    """One round of one method.

    Attributes:
        seconds: of the search.
        translations: detokenised text by the sentence's number.
        origin: where the run is from.
        timesteps: decoder calls for batches; ``None`` for fairseq's search, which does not count.
        expansions: the mean number of candidates on the beams in a timestep; ``None`` likewise.
    """

    bleu: float
    seconds: float
    translations: dict[int, str]
    origin: dict[str, str]
    timesteps: Optional[int] = None
    expansions: Optional[float] = None


def read_run(output: Path, reference: list[str]) -> Run:
    """BLEU of the detokenised hypotheses, and the seconds reported by fairseq-generate."""
    results = (output / "generate-test.txt").read_text(encoding="utf-8")
    translations = numbered(r"D-(\d+)\t[^\t\n]*", results)
    _, seconds = tokens_and_seconds(output)
    bleu = SCORER.score(translations, dict(enumerate(reference)))
    return Run(bleu, seconds, translations, commands.origin(output), *counts(output, results))


def counts(output: Path, results: str) -> tuple[Optional[int], Optional[float]]:
    """Timesteps, and candidate expansions in each, from the log of the search."""
    log = "\n".join([*read_lines(output / "log.txt"), results])
    timesteps = re.search(r" (\d+) decoder invocations", log)
    expansions = re.search(r"([\d.]+) with ended candidates", log) or re.search(
        r"([\d.]+) candidate expansions", log
    )
    return timesteps and int(timesteps[1]), expansions and float(expansions[1])


def table(
    runs: dict[str, list[Run]], compared: dict[str, str], reference: list[str], title: str
) -> str:
    """The table of the runs in Markdown.

    Args:
        runs: the rounds of each method, in order.
        compared: the method that each one is compared with, in speed and BLEU; the comparison is
            left out if that method has no runs.
    """
    rows = []
    for method, rounds in runs.items():
        seconds = [run.seconds for run in rounds]
        bleu, speed_up, baseline = f"{rounds[0].bleu:.2f}", "-", compared[method]
        if baseline in runs:
            ratios = [theirs.seconds / own.seconds for own, theirs in zip(rounds, runs[baseline])]
            speed_up = f"{statistics.median(ratios):.2f}x"
            if method != baseline:
                speed_up += f" ± {spread(ratios):.2f}"
                base = runs[baseline][0].translations
                bleu += "*" * differs(rounds[0].translations, base, reference)
        wall_clock = f"{statistics.mean(seconds):.1f} ± {spread(seconds):.1f}"
        outputs = shortened(checksum(rounds[0].translations))
        rows.append(dict(zip(COLUMNS, (method, bleu, wall_clock, speed_up, outputs))))
    return markdown(signed(title), rows)


def spread(values: list[float]) -> float:
    """The standard deviation; 0 of a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
