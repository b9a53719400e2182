"""The seconds that decoder invocations take, by how many tokens they feed."""

import math
import weakref
from collections import Counter, deque
from functools import lru_cache
from itertools import accumulate
from typing import Deque, Dict, Hashable, List, Optional, Sequence

from torch import nn

# So many invocations of a size tell what it costs; of more the last ones do.
N_SAMPLES = 3
N_REMEMBERED = 9
# Sizes that are a quarter of an octave apart are measured apart.
CLASSES_OF_OCTAVE = 4
# Where time grows as tokens do, twice the tokens take at least so much more of it.
LINEAR_GROWTH = 1.8


class InvocationCosts:
    """The median of what the last invocations of n tokens took, all rows together.

    Between sizes that were measured
    lies the straight line. Beyond the largest the time is taken to grow as the tokens do, and
    before the smallest not to shrink: no invocation takes more.
    """

    def __init__(self) -> None:
        self._samples: Dict[int, Deque[float]] = {}
        self._medians: Dict[int, float] = {}
        self._n_asked: Counter = Counter()
        self._n_wanted = N_SAMPLES
        self._sizes: List[float] = []
        self._seconds: List[float] = []

    def learn(self, n_tokens: int, seconds: float) -> None:
        """Learn from an invocation."""
        size = _class_of(n_tokens)
        samples = self._samples.setdefault(size, deque(maxlen=N_REMEMBERED))
        samples.append(seconds)
        if len(samples) < N_SAMPLES:
            return
        median = sorted(samples)[len(samples) // 2]
        if self._medians.get(size) != median:
            self._medians[size] = median
            known = sorted(self._medians)
            self._sizes = [2 ** (size / CLASSES_OF_OCTAVE) for size in known]
            # More tokens never take less time; where they seem to, somebody else was at work.
            self._seconds = list(accumulate((self._medians[size] for size in known), max))

    def is_known(self, n_tokens: int) -> bool:
        """Whether invocations of about so many tokens were measured often enough."""
        return _class_of(n_tokens) in self._medians

    def seconds(self, n_tokens: int) -> float:
        """The seconds of an invocation; 0 if none was measured."""
        sizes, seconds = self._sizes, self._seconds
        if not sizes:
            return 0.0
        if n_tokens <= sizes[0]:
            return seconds[0]
        if n_tokens >= sizes[-1]:
            return seconds[-1] * n_tokens / sizes[-1]
        last = next(i for i, size in enumerate(sizes) if size > n_tokens)
        share = (n_tokens - sizes[last - 1]) / (sizes[last] - sizes[last - 1])
        return seconds[last - 1] + share * (seconds[last] - seconds[last - 1])

    def doubt(self) -> None:
        """Have each size measured once more: somebody else may have been at work before."""
        self._n_wanted = min(self._n_wanted + 1, N_REMEMBERED)

    def to_measure(self, n_rows: int, most: int) -> Optional[int]:
        """The tokens of a row, at most so many, that an invocation should feed to be measured.

        Returns:
            1, 2, 4, ...; ``None`` where nothing is left to be learned: time grows as tokens do from
            here on, or all was measured, or invocations of that size did not come about.
        """
        n_tokens = 1
        while n_tokens <= most:
            size = _class_of(n_rows * n_tokens)
            if len(self._samples.get(size, ())) < self._n_wanted:
                self._n_asked[size] += 1
                return n_tokens if self._n_asked[size] <= 2 * self._n_wanted else None
            if n_tokens > 1:
                whole, half = (self.seconds(n_rows * n) for n in (n_tokens, n_tokens // 2))
                if whole > LINEAR_GROWTH * half:
                    return None
            n_tokens *= 2
        return None

    def summary(self) -> str:
        """The milliseconds of some sizes, for the log; empty if nothing was measured."""
        known = zip(self._sizes, self._seconds)
        return ", ".join(f"{1000 * seconds:.2f} ms for {size:.0f}" for size, seconds in known)


def costs_of(models: Sequence[nn.Module], kind: Hashable) -> InvocationCosts:
    """The costs of an ensemble's invocations. They are kept with its first model.

    Args:
        kind: what else they depend on.
    """
    of_model = _costs.setdefault(models[0], {})
    return of_model.setdefault((len(models), kind), InvocationCosts())


_costs: "weakref.WeakKeyDictionary[nn.Module, Dict[Hashable, InvocationCosts]]" = (
    weakref.WeakKeyDictionary()
)


@lru_cache(maxsize=4096)
def _class_of(n_tokens: int) -> int:
    return round(CLASSES_OF_OCTAVE * math.log2(n_tokens))
