"""Beam search in compiled code, for batches and streams."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from ...engine.kernels import loading
from ...engine.searches import hypotheses_of
from ..hypothesis import Hypotheses, Hypothesis, best_first, hypothesis
from ..sources import Sources
from ..statistics import INVOCATIONS, BeamRecord, SentenceRecord, Statistics
from .search import CompiledSearch

# The number of steps after which control returns to Python, for results and interrupts.
STEPS_AT_ONCE = 256


class ScheduleOptions(NamedTuple):
    """Controls when sentences begin, by default all at once: the arguments of ``_engine.Schedule``.

    Attributes:
        sentences, source_tokens, rows: the most that are decoded at once; ``None`` for no limit.
        refill_threshold: new sentences begin if at most this share of the capacity is in use.
        expands_shortest: whether a step expands only the shortest beams.
    """

    sentences: Optional[int] = None
    source_tokens: Optional[int] = None
    rows: Optional[int] = None
    refill_threshold: float = 0.0
    expands_shortest: bool = False


class SentenceLimits(NamedTuple):
    """Limits of the outputs of B sentences.

    Attributes:
        max_lens: the maximum length without EOS, int64 ``[B]``.
        waived: the number of first tokens for which --min-len is waived, int64 ``[B]``.
        prefix: int64 ``[B, P]``, padded on the right, or ``None``.
        n_forced: the number of tokens of each prefix, at most the maximum length, int64 ``[B]``.
        random_states: for sampling, uint64 ``[B]``, or ``None``.
    """

    max_lens: np.ndarray
    waived: np.ndarray
    prefix: Optional[np.ndarray]
    n_forced: np.ndarray
    random_states: Optional[np.ndarray]

    def forced(self, number: int) -> list[int]:
        """The tokens that the hypotheses of a sentence have to begin with."""
        if self.prefix is None:
            return []
        return self.prefix[number, : self.n_forced[number]].tolist()


class BeamResult(NamedTuple):
    """The result of a sentence, identified by its place in the batch; hypotheses are best first."""

    number: int
    hypotheses: list[Hypothesis]
    steps: int
    expansions: int


def in_order(
    results: Iterable[BeamResult], sources: Sources, ids: list[int]
) -> tuple[Hypotheses, list[SentenceRecord]]:
    """The hypotheses in the order of the batch, and the cost of each sentence.

    Args:
        ids: the sentence numbers, for the records.
    """
    hypotheses: Hypotheses = [[] for _ in ids]
    records: list[SentenceRecord] = []
    n_source = sources.lengths.tolist()
    for number, found, steps, expansions in results:
        hypotheses[number] = found
        costs = (n_source[number], found[0]["tokens"].numel(), steps, list[int](), expansions)
        records.append(BeamRecord(ids[number], *costs))
    return hypotheses, records


class CompiledBeams(CompiledSearch):
    """A compiled beam search."""

    def results(
        self,
        sources: Sources,
        limits: SentenceLimits,
        bos: int,
        statistics: Statistics,
        schedule: ScheduleOptions = ScheduleOptions(),
        order: Optional[Tensor] = None,
    ) -> Iterator[BeamResult]:
        """Decode sentences and yield results as they finish.

        Args:
            statistics: updated with the search's counters.
            order: int64 ``[B]``, the order in which sentences begin (default: that of the batch).
        """
        numbers = np.arange(sources.n) if order is None else order.numpy()
        draws = limits.random_states
        with self.search_for(sources.width, int(limits.max_lens.max()) + 1) as search:
            before = search.counts
            search.set_schedule(_compiled(schedule))
            search.admit(
                ids=numbers,
                bos=bos,
                max_lens=limits.max_lens[numbers],
                waived=limits.waived[numbers],
                random_states=None if draws is None else draws[numbers],
                n_source=sources.lengths.numpy()[numbers],
                **self.arguments(sources, limits.prefix, numbers),
            )
            n_left = sources.n
            while n_left:
                n_left = search.advance(STEPS_AT_ONCE, loading.n_threads())
                yield from self._finished(search)
        _count(before, search.counts, statistics)

    def _finished(self, search: Any) -> Iterator[BeamResult]:
        finished = search.finished()
        parts = (finished.ids, hypotheses_of(finished), finished.steps, finished.expansions)
        for number, found, steps, expansions in zip(*parts):
            hypotheses = (
                hypothesis(
                    torch.from_numpy(tokens),
                    self._rules.normalized(total, len(tokens)),
                    torch.from_numpy(scores),
                )
                for tokens, scores, total in found
            )
            yield BeamResult(number, best_first(hypotheses), steps, expansions)


def _count(before: Any, now: Any, statistics: Statistics) -> None:
    """Add the increase of the counters since ``before``."""
    statistics.count(before, now, (*INVOCATIONS, "beam_steps", "waiting"))
    # The first admission is not a refill.
    statistics.refills += now.encoder_invocations - before.encoder_invocations - 1


def _compiled(schedule: ScheduleOptions) -> Any:
    return loading.library().Schedule(
        sentences=loading.bounded(schedule.sentences or 0),
        source_tokens=loading.bounded(schedule.source_tokens or 0),
        rows=loading.bounded(schedule.rows or 0),
        refill_threshold=schedule.refill_threshold,
        expands_shortest=schedule.expands_shortest,
    )
