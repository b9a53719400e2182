"""The rows of the table, from the rounds of each method."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from .contest import Contest, Entry
from .measurement import Round
from .scoring import Scorer


@dataclass
class Trial:
    """The time of a method with one division of the threads.

    Attributes:
        division: workers x threads of each, such as ``2 x 1``.
        seconds: the median over the rounds.
        latency_p50: see :class:`MethodResult`.
    """

    division: str
    seconds: float
    latency_p50: Optional[float]


@dataclass
class MethodResult:
    """One row of the table: a method with its fastest division of the threads.

    Attributes:
        division: workers x threads of each, such as ``2 x 1``.
        trials: the times of all measured divisions, including this one.
        seconds: the time of each round.
        latency_p50, latency_p95: percentiles over the sentences, in milliseconds, with batch size
            1; other workers decode other sentences at the same time.
        invocations, tokens_per_invocation: calls of the decoder, and tokens per row of these
            calls; ``None`` if unknown.
        identical: the number of translations with the same tokens as those of ``identical_to``.
        identical_to: the first method with the same beam size.
        time_ratio: the time relative to the reference method; the median over the rounds.
        time_ratio_range: the smallest and the largest of these ratios.
        memory: the sum of the peaks of the method's processes, in MiB; shared memory counts once.
        memory_before: MiB used by the first process before loading.
        flops: floating-point operations of a round; ``None`` if they are not counted.
    """

    method: str
    division: str
    trials: list[Trial]
    batch_size: int
    beam_width: int
    bleu: float
    seconds: list[float]
    sentences: int
    tokens: int
    sentences_per_second: float
    tokens_per_second: float
    latency_p50: Optional[float]
    latency_p95: Optional[float]
    invocations: Optional[int]
    tokens_per_invocation: Optional[float]
    identical: int
    identical_to: str
    time_ratio: float
    time_ratio_range: tuple[float, float]
    memory: float
    memory_before: float
    flops: Optional[int] = None

    @property
    def speed_up(self) -> float:
        """The speed relative to the reference method."""
        return 1 / self.time_ratio


def summarize(contest: Contest, reference: str, scorer: Scorer) -> list[MethodResult]:
    """The rows of the table.

    Args:
        contest: a contest that has been run.
        reference: the name of the reference method.
    """
    results = []
    for batch_size in dict.fromkeys(entry.batch_size for entry in contest.entries):
        groups: dict[str, list[Entry]] = {}
        for entry in contest.entries:
            if entry.batch_size == batch_size:
                groups.setdefault(entry.method.name, []).append(entry)
        fastest = {name: min(group, key=_seconds) for name, group in groups.items()}
        for name, entry in fastest.items():
            twin = next(o for o in fastest.values() if o.beam_width == entry.beam_width)
            score = _bleu(scorer, entry.rounds[0], contest.references)
            trials = [
                Trial(str(other.division), _seconds(other), _latencies(other.rounds)[0])
                for other in groups[name]
            ]
            results.append(_result(entry, fastest[reference], twin, score, trials))
    return results


def _seconds(entry: Entry) -> float:
    """The median time over the rounds."""
    return statistics.median(result.seconds for result in entry.rounds)


def _bleu(scorer: Scorer, result: Round, references: dict[int, str]) -> float:
    texts = {number: translation.text for number, translation in result.translations.items()}
    return scorer.score(texts, references)


def _result(
    entry: Entry, compared: Entry, twin: Entry, bleu: float, trials: list[Trial]
) -> MethodResult:
    first = entry.rounds[0]
    seconds = [result.seconds for result in entry.rounds]
    typical = _seconds(entry)
    ratios = [this.seconds / other.seconds for this, other in zip(entry.rounds, compared.rounds)]
    p50, p95 = _latencies(entry.rounds)
    rows = first.row_invocations
    expected = twin.rounds[0].translations
    return MethodResult(
        method=entry.method.name,
        division=str(entry.division),
        trials=trials,
        batch_size=entry.batch_size,
        beam_width=entry.beam_width,
        bleu=bleu,
        seconds=seconds,
        sentences=len(first.translations),
        tokens=first.tokens,
        sentences_per_second=len(first.translations) / typical,
        tokens_per_second=first.tokens / typical,
        latency_p50=p50,
        latency_p95=p95,
        invocations=first.invocations,
        tokens_per_invocation=None if rows is None else first.tokens / rows,
        identical=sum(
            translation.tokens == expected[number].tokens
            for number, translation in first.translations.items()
        ),
        identical_to=twin.method.name,
        time_ratio=statistics.median(ratios),
        time_ratio_range=(min(ratios), max(ratios)),
        memory=entry.memory,
        memory_before=entry.memory_before,
        flops=entry.flops,
    )


def _latencies(rounds: Sequence[Round]) -> tuple[Optional[float], Optional[float]]:
    """The percentiles over sentences, in ms, of the median latency over the rounds."""
    first = rounds[0]
    if first.latencies.keys() != first.translations.keys():
        return None, None
    medians = [
        statistics.median(result.latencies[number] for result in rounds)
        for number in first.latencies
    ]
    p50, p95 = np.percentile(medians, (50, 95)) * 1000
    return float(p50), float(p95)
