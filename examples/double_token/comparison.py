"""Table 2 of Imamura and Sumita (WAT 2020): quality and speed of the methods, for one seed."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common.en_de import TEST_TEXT
from examples.common.table import Run, checksum, markdown, read_run, shortened, signed

from .models import BASELINE


@dataclass
class Decoded(Run):
    """The test set decoded by one method in one round."""

    seed: int
    beam: int
    batch_size: int
    output: Path

    @property
    def steps(self) -> Optional[int]:
        """Steps of all sentences; ``None`` for fairseq's beam search."""
        return self.invocations if (self.output / "stats.jsonl").exists() else None


# The rounds of each method with each seed.
Groups = dict[tuple[str, int], list[Decoded]]


def read_decoded(output: Path, method: str, seed: int, beam: int, batch_size: int) -> Decoded:
    """Read the output of fairseq-generate in ``output``."""
    run = read_run(output, method, method, TEST_TEXT)
    return Decoded(**vars(run), seed=seed, beam=beam, batch_size=batch_size, output=output)


def rounds_of(decoded: list[Decoded], beam: int, batch_size: int) -> Groups:
    """The rounds with one beam width and batch size, by method and seed."""
    groups: Groups = {}
    for run in decoded:
        if (run.beam, run.batch_size) == (beam, batch_size):
            groups.setdefault((run.method, run.seed), []).append(run)
    return groups


def show_comparison(decoded: list[Decoded], beam: int, batch_size: int) -> str:
    """Print and return the table of one seed, beam width and batch size."""
    groups = rounds_of(decoded, beam, batch_size)
    rows = [row_of(rounds, groups[BASELINE, seed]) for (_, seed), rounds in groups.items()]
    title = (
        f"Beam {beam}, batch size {batch_size}: {len(decoded[0].translations)} sentences.\n"
        f"Ratios: to {BASELINE}; medians of alternating rounds."
    )
    text = markdown(signed(title), rows)
    print("\n" + text)
    return text


def row_of(rounds: list[Decoded], baseline: list[Decoded]) -> dict[str, str]:
    """One line of the table."""
    run, n_sentences = rounds[0], len(rounds[0].translations)
    seconds = statistics.median(one.seconds for one in rounds)
    row = {
        "method": run.method,
        "BLEU": f"{run.bleu:.2f}",
        "steps per sentence": "-",
        "ratio of steps": "-",
        "tokens/s (ratio)": f"{run.tokens / seconds:.0f} ({rate_of_tokens(rounds, baseline):.0%})",
        "seconds": f"{seconds:.1f}",
        "speed ratio": f"{rate(rounds, baseline):.2f}x",
        "outputs": shortened(checksum(run.translations)),
    }
    if run.steps is not None:
        row["steps per sentence"] = f"{run.steps / n_sentences:.1f}"
        row["ratio of steps"] = f"{run.steps / baseline[0].steps:.2f}"
    return row


def rate(rounds: list[Decoded], baseline: list[Decoded]) -> float:
    """The speed relative to the baseline: the median of the ratios of the rounds."""
    return statistics.median(other.seconds / own.seconds for own, other in zip(rounds, baseline))


def rate_of_tokens(rounds: list[Decoded], baseline: list[Decoded]) -> float:
    """Tokens per second, relative to the baseline."""
    return rate(rounds, baseline) * rounds[0].tokens / baseline[0].tokens
