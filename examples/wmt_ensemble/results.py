"""Table 1 of the streaming paper (Yang et al. 2020) beside ours."""

import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

from examples.common import commands
from examples.common.significance import differs
from examples.common.table import (
    SCORER,
    checksum,
    log_lines,
    markdown,
    numbered,
    shortened,
    signed,
    tokens_and_seconds,
)

COLUMNS = ("BLEU", "wall clock (s)", "time", "outputs")


class Paper(NamedTuple):
    """A row of the paper: newstest2018 from German and Russian to English.

    Attributes:
        bleu: of both languages.
        seconds: on a GPU with 32 GB.
        with_16_gb: seconds on a GPU with 16 GB; empty if the paper does not say.
    """

    bleu: tuple[float, ...]
    seconds: tuple[float, ...]
    with_16_gb: tuple[float, ...] = ()


# By our method.
PAPER = {
    "fairseq --beam 1": Paper((48.18, 37.84), (39.01, 42.09), (46.41, 52.26)),
    "fairseq --beam 5": Paper((49.42, 38.83), (102.25, 103.59)),
    "variable_beam 5": Paper((49.46, 39.03), (114.18, 130.01)),
    "streaming 5": Paper((49.46, 39.03), (92.39, 95.45)),
    "fairseq --beam 50": Paper((49.57, 38.98), (891.53, 893.23), (2072.86, 2155.95)),
    "variable_beam 50": Paper((49.59, 39.04), (308.15, 399.98), (645.70, 852.93)),
    "streaming 50": Paper((49.59, 39.04), (257.20, 342.18), (606.17, 803.72)),
}


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
    return Run(bleu, seconds, translations, commands.origin(output), *counts(output))


def counts(output: Path) -> tuple[Optional[int], Optional[float]]:
    """Timesteps, and candidate expansions in each, from the log of the search."""
    log = "\n".join(log_lines(output))
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
        compared: the method that each one is compared with, in time and BLEU; the comparison is
            left out if that method has no runs.
    """
    rows = []
    for method, rounds in runs.items():
        seconds = [run.seconds for run in rounds]
        bleu, time, baseline = f"{rounds[0].bleu:.2f}", "-", compared[method]
        if baseline in runs:
            ratios = [own.seconds / theirs.seconds for own, theirs in zip(rounds, runs[baseline])]
            time = f"{statistics.median(ratios):.2f}"
            if method != baseline:
                time += f" ± {spread(ratios):.2f}"
                base = runs[baseline][0].translations
                bleu += "*" * differs([rounds[0].translations], [base], reference)
        wall_clock = f"{statistics.mean(seconds):.1f} ± {spread(seconds):.1f}"
        outputs = shortened(checksum(rounds[0].translations))
        own = dict(zip(COLUMNS, (bleu, wall_clock, time, outputs)))
        rows.append({"method": method, **of_paper(method, baseline), **own})
    return markdown(signed(title), rows)


def of_paper(method: str, baseline: str) -> dict[str, str]:
    """The paper's cells of a line; times are relative to those of a baseline."""
    own, base = (PAPER.get(name, Paper((), ())) for name in (method, baseline))
    return {
        "paper: BLEU": " / ".join(f"{value:.2f}" for value in own.bleu),
        "paper: time, 32 GB": relative(own.seconds, base.seconds),
        "paper: time, 16 GB": relative(own.with_16_gb, base.with_16_gb),
    }


def relative(seconds: tuple[float, ...], base: tuple[float, ...]) -> str:
    """Ratios of times, in a cell."""
    return " / ".join(f"{own / other:.2f}" for own, other in zip(seconds, base))


def spread(values: list[float]) -> float:
    """The standard deviation; 0 of a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
