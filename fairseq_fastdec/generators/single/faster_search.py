"""A batch is decoded by that of several searches whose tokens take the least time."""

import logging
import math
from collections import defaultdict, deque
from statistics import median
from time import perf_counter
from typing import DefaultDict, Deque, List, Protocol, Sequence

from torch import Tensor

from .batch import Batch

logger = logging.getLogger(__name__)

# A batch of so many tokens shows what a search takes. Of smaller ones, the first of a trial does
# not count, as the processor's caches hold none of what it reads.
ENOUGH_TOKENS = 256
N_OF_TRIAL = 4
N_REMEMBERED = 9
# So many batches after its first trial a search has the next one, then twice as many, ...
FIRST_REST = 128
SAID_AFTER = 64


class Search(Protocol):
    """A way to decode a batch.

    Attributes:
        name: in the log.
    """

    name: str

    def decode(self, batch: Batch, last: Tensor) -> None:
        """Extend every row until it ends; ``last`` int64 ``[R]`` are the tokens to begin behind."""


class SearchTimes:
    """The time that a token takes by each search, in batches of about as many rows."""

    def __init__(self, n_searches: int) -> None:
        self._seconds: List[Deque[float]] = [deque(maxlen=N_REMEMBERED) for _ in range(n_searches)]
        self._rests = [0] * n_searches
        self._next_trials = [0] * n_searches
        self._n_batches = 0
        self._on_trial, self._n_left = 0, 0

    def choose(self) -> int:
        """The number of the search that is to decode the next batch."""
        self._n_batches += 1
        due = [n for n, first in enumerate(self._next_trials) if first <= self._n_batches]
        if due and not self._n_left:
            self._begin_trial(due[0])
        return self._on_trial if self._n_left else self.fastest

    def _begin_trial(self, number: int) -> None:
        self._on_trial, self._n_left = number, N_OF_TRIAL
        self._rests[number] = 2 * self._rests[number] or FIRST_REST
        self._next_trials[number] = self._n_batches + self._rests[number]

    def learn(self, number: int, seconds: float, n_tokens: int) -> None:
        """Learn from a batch that a search has decoded."""
        is_large = n_tokens >= ENOUGH_TOKENS
        is_cold = self._n_left == N_OF_TRIAL and not is_large
        if n_tokens and not is_cold:
            self._seconds[number].append(seconds / n_tokens)
        self._n_left = 0 if is_large else max(0, self._n_left - 1)

    @property
    def fastest(self) -> int:
        """The number of the search that took the least time a token, in the median batch."""
        times = self.medians()
        return times.index(min(times))

    def medians(self) -> List[float]:
        """The seconds of a token by each search; infinite where nothing is known."""
        return [median(known) if known else math.inf for known in self._seconds]


class SearchExperience:
    """The times of searches, apart for other numbers of rows."""

    def __init__(self, n_searches: int) -> None:
        self._by_rows: DefaultDict[int, SearchTimes] = defaultdict(lambda: SearchTimes(n_searches))

    def of_rows(self, n_rows: int) -> SearchTimes:
        """Find those of batches of about so many rows."""
        return self._by_rows[n_rows.bit_length()]


class FasterSearch:
    """Has each batch decoded by the search that was fastest so far, all others now and then.

    Attributes:
        searches: those to choose from.
    """

    def __init__(self, searches: Sequence[Search], known: SearchExperience) -> None:
        """
        Args:
            searches: with the same output.
            known: the experience with them. More is learned.
        """
        self.searches, self._known = searches, known
        self._n_batches = [0] * len(searches)

    def decode(self, batch: Batch, last: Tensor) -> None:
        """See :meth:`Search.decode`."""
        times = self._known.of_rows(batch.n_rows)
        number = times.choose()
        before = perf_counter()
        self.searches[number].decode(batch, last)
        seconds = perf_counter() - before
        times.learn(number, seconds, int(batch.final_lengths.sum()))
        self._n_batches[number] += 1
        if sum(self._n_batches) == SAID_AFTER:
            logger.debug(self.summary())

    def summary(self) -> str:
        """Say in a line how many batches each search has decoded."""
        parts = [f"{own.name}: {n}" for own, n in zip(self.searches, self._n_batches)]
        return f"of {sum(self._n_batches)} batches by {', '.join(parts)}"
