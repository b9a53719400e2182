"""Schedules say when each sentence is decoded."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Protocol

import numpy as np


class UnderWay(Protocol):
    """The S sentences that a search decodes now."""

    @property
    def numbers(self) -> np.ndarray:
        """Their numbers, int64 ``[S]``."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each, int64 ``[S]``."""

    @property
    def widths(self) -> np.ndarray:
        """The rows of each, int64 ``[S]``."""


class ScheduleOptions(NamedTuple):
    """A schedule for the compiled search; see :class:`Stream`.

    Attributes:
        capacity: without limits, all sentences begin at once.
        longest_first: whether long sentences begin before short ones, or in the order of the batch.
    """

    capacity: "Capacity"
    refill_threshold: float = 0.0
    policy: str = "fifo"
    longest_first: bool = False


class Schedule(ABC):
    """Says which sentences begin, and which of those under way go on next.

    Nothing here changes what a translation is; only when it comes and what it costs.
    """

    refills = 0
    # For the compiled search; None if it has no such schedule.
    options: Optional[ScheduleOptions] = None

    @abstractmethod
    def due(self, search: UnderWay) -> List[int]:
        """The numbers of the sentences to begin now."""

    @abstractmethod
    def choose(self, search: UnderWay) -> Optional[np.ndarray]:
        """The sentences under way that the next step expands: bool ``[S]``, at least one.

        Returns:
            ``None`` for all.
        """


class AllAtOnce(Schedule):
    """A batch: all begin together and go on together (VAR-BATCH, FIXED)."""

    def __init__(self, n_sentences: int) -> None:
        self._waiting = list(range(n_sentences))
        self.options = ScheduleOptions(Capacity())

    def due(self, search: UnderWay) -> List[int]:
        due, self._waiting = self._waiting, []
        return due

    def choose(self, search: UnderWay) -> Optional[np.ndarray]:
        return None


@dataclass
class Capacity:
    """The most that is decoded at once; ``None`` sets no limit.

    Rows limit what a step expands. Without a number of sentences they limit what is under way, too;
    with one, so many are under way, and those that a step has no room for fill the next.

    Attributes:
        sentences: n of Yang et al. 2020, --batch-size.
        source_tokens: EOS included, padding not, --max-tokens.
        rows: candidates, --max-beam-rows.
    """

    sentences: Optional[int] = None
    source_tokens: Optional[int] = None
    rows: Optional[int] = None


class Stream(Schedule):
    """VAR-STREAM (Yang et al. 2020, section 3, Algorithm 1) and VAR-STR-FIFO (appendix A.2).

    Sentences begin longest first, so that those that begin together are of about one length, and
    the last ones to end are short. When no more than ``refill_threshold`` of the capacity is in
    use, it is filled up again.

    ``min-length`` expands the beams with the fewest tokens, so that all rows of a step are of one
    length; ``fifo`` expands the beams with the most tokens first, and as many as there is room for.

    The rows of a sentence are not known before it is decoded. It counts with the mean width so far,
    and where it then takes more room, some sentences rest: never more than the capacity's rows are
    expanded at once.
    """

    def __init__(
        self,
        source_tokens: List[int],
        capacity: Capacity,
        refill_threshold: float,
        policy: str,
        width: int,
    ) -> None:
        """
        Args:
            source_tokens: the length of each sentence.
            refill_threshold: epsilon, a share of the capacity.
            policy: ``min-length`` or ``fifo``.
            width: K, the widest that a beam can be.
        """
        self.options = ScheduleOptions(capacity, refill_threshold, policy, longest_first=True)
        self._source_tokens = np.array(source_tokens, dtype=np.int64)
        self._capacity = capacity
        self._refill_threshold = refill_threshold
        self._policy = policy
        # Longest first; taken from the end.
        self._waiting = np.argsort(self._source_tokens, kind="stable").tolist()
        self._begun = False
        self._rows_seen, self._beams_seen = width, 1

    def due(self, search: UnderWay) -> List[int]:
        if not self._waiting:
            return []
        numbers = search.numbers
        used = np.array(
            [numbers.size, self._source_tokens[numbers].sum(), search.widths.sum()], float
        )
        if self._share(used) > self._refill_threshold:
            return []
        due: List[int] = []
        while self._waiting:
            cost = np.array([1, self._source_tokens[self._waiting[-1]], self._mean_width()])
            if self._share(used + cost) > 1 and (due or numbers.size):
                break
            used += cost
            due.append(self._waiting.pop())
        if due:
            self.refills += self._begun
            self._begun = True
        return due

    def choose(self, search: UnderWay) -> Optional[np.ndarray]:
        lengths, widths = search.lengths, search.widths
        if self._policy == "min-length":
            wanted = np.flatnonzero(lengths == lengths.min())
        else:
            wanted = np.argsort(-lengths, kind="stable")
        if self._capacity.rows is not None:
            fits = widths[wanted].cumsum() <= self._capacity.rows
            wanted = wanted[fits]
        self._rows_seen += widths[wanted].sum()
        self._beams_seen += wanted.size
        chosen = np.zeros(lengths.size, dtype=bool)
        chosen[wanted] = True
        return chosen

    def _mean_width(self) -> float:
        return self._rows_seen / self._beams_seen

    def _share(self, used: np.ndarray) -> float:
        """The share of the capacity that so many sentences, source tokens and rows take."""
        capacity = self._capacity
        rows = capacity.rows if capacity.sentences is None else None
        limits = (capacity.sentences, capacity.source_tokens, rows)
        return max((u / limit for u, limit in zip(used, limits) if limit), default=0.0)
