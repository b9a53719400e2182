"""Table 2 of Imamura and Sumita (WAT 2020): quality and speed of the methods."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common.en_de import TEST_TEXT
from examples.common.significance import significantly_different
from examples.common.table import checksum, markdown, read_run, shortened, signed
from examples.common.training_text import read

from .models import BASELINE, MARKED, METHODS

# What the marks mean.
LEGEND = f"{', '.join(f'{mark} {title}' for mark, title in MARKED.items())} (p < 0.05)."


@dataclass
class Decoded:
    """The test set decoded by one method in one round."""

    title: str
    beam: int
    batch_size: int
    bleu: float
    seconds: float
    tokens: int
    steps: Optional[int]  # total; ``None`` for fairseq's beam search
    hypotheses: dict[int, str]  # in subwords, by number
    translations: list[str]
    references: list[str]
    output: Path


def read_decoded(output: Path, title: str, beam: int, batch_size: int) -> Decoded:
    """Read the output of fairseq-generate in ``output``."""
    run = read_run(output, title, title, TEST_TEXT)
    numbers, references = sorted(run.translations), read(TEST_TEXT)
    return Decoded(
        title,
        beam,
        batch_size,
        run.bleu,
        run.seconds,
        run.tokens,
        run.invocations if (output / "stats.jsonl").exists() else None,
        run.hypotheses,
        [run.translations[number] for number in numbers],
        [references[number] for number in numbers],
        output,
    )


def show_comparison(decoded: list[Decoded], beam: int, batch_size: int) -> str:
    """Print and return the table of one beam width and batch size."""
    groups = by_title(decoded, beam, batch_size)
    title = (
        f"Beam {beam}, batch size {batch_size}: {len(groups[BASELINE][0].hypotheses)} sentences.\n"
        f"Ratios: to {BASELINE}; medians of alternating rounds. BLEU differs significantly from\n"
        f"{LEGEND}"
    )
    marks = marks_of(groups)
    rows = [row_of(group, groups[BASELINE], marks[title]) for title, group in groups.items()]
    text = markdown(signed(title), rows)
    print("\n" + text)
    return text


def by_title(decoded: list[Decoded], beam: int, batch_size: int) -> dict[str, list[Decoded]]:
    """The rounds of each method with one beam width and batch size."""
    groups: dict[str, list[Decoded]] = {}
    for run in decoded:
        if (run.beam, run.batch_size) == (beam, batch_size):
            groups.setdefault(run.title, []).append(run)
    return groups


def marks_of(groups: dict[str, list[Decoded]]) -> dict[str, str]:
    """The significance marks of each method's BLEU score, from its first round.

    A method that was not decoded gives no marks.
    """
    runs = {title: group[0] for title, group in groups.items()}
    model_of = {method.title: method.model for method in METHODS}
    references = runs[BASELINE].references
    marks = dict.fromkeys(runs, "")
    for mark, than in MARKED.items():
        if than not in runs:
            continue
        # Methods of the same model are excluded, since the test finds even one different sentence
        # significant.
        systems = {
            title: run.translations
            for title, run in runs.items()
            if title == than or model_of[title] != model_of[than]
        }
        for title in significantly_different(systems, references, than):
            marks[title] += mark
    return marks


def row_of(group: list[Decoded], baseline: list[Decoded], marks: str) -> dict[str, str]:
    """One line of the table."""
    run, n_sentences = group[0], len(group[0].hypotheses)
    seconds = statistics.median(one.seconds for one in group)
    row = {
        "method": run.title,
        "BLEU": f"{run.bleu:.2f} {marks}".rstrip(),
        "steps per sentence": "-",
        "ratio of steps": "-",
        "tokens/s (ratio)": f"{run.tokens / seconds:.0f} ({rate_of_tokens(group, baseline):.0%})",
        "seconds": f"{seconds:.1f}",
        "speed ratio": f"{rate(group, baseline):.2f}x",
        "outputs": shortened(checksum(dict(enumerate(run.translations)))),
    }
    if run.steps is not None:
        row["steps per sentence"] = f"{run.steps / n_sentences:.1f}"
        row["ratio of steps"] = f"{run.steps / baseline[0].steps:.2f}"
    return row


def rate(group: list[Decoded], baseline: list[Decoded]) -> float:
    """The speed relative to the baseline: the median of the ratios of the rounds."""
    return statistics.median(other.seconds / own.seconds for own, other in zip(group, baseline))


def rate_of_tokens(group: list[Decoded], baseline: list[Decoded]) -> float:
    """Tokens per second, relative to the baseline."""
    return rate(group, baseline) * group[0].tokens / baseline[0].tokens
