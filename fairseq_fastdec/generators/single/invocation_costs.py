"""The seconds that decoder invocations take, by how many tokens they feed."""

import math
from collections import deque
from functools import lru_cache
from itertools import accumulate
from typing import Deque, Dict, List

# So many invocations of a size tell what it costs; of more the last ones do.
N_SAMPLES = 2
N_REMEMBERED = 9
# Sizes that are a quarter of an octave apart are measured apart.
CLASSES_OF_OCTAVE = 4
# Costs that differ by less are the same.
RESOLUTION = 0.03


class InvocationCosts:
    """The median of what the last invocations of n tokens took, all rows together.

    Between sizes that were measured lies the straight line. Before the smallest and beyond the
    largest the time is taken to be that of those: whoever hopes for it tries, and knows more then.
    """

    def __init__(self) -> None:
        self._samples: Dict[int, Deque[float]] = {}
        self._medians: Dict[int, float] = {}
        self._sizes: List[float] = []
        self._seconds: List[float] = []
        self._known: Dict[int, float] = {}

    @property
    def largest(self) -> float:
        """The tokens of the largest invocations that were measured; 0 if none was."""
        return self._sizes[-1] if self._sizes else 0.0

    def learn(self, n_tokens: int, seconds: float) -> None:
        """Learn from an invocation."""
        size = _class_of(n_tokens)
        samples = self._samples.setdefault(size, deque(maxlen=N_REMEMBERED))
        samples.append(seconds)
        if len(samples) < N_SAMPLES:
            return
        # The lower one of two: what is too long had another reason.
        median = sorted(samples)[(len(samples) - 1) // 2]
        known = self._medians.get(size, math.inf)
        if abs(median - known) > RESOLUTION * median:
            self._medians[size] = median
            self._draw_line()

    def _draw_line(self) -> None:
        known = sorted(self._medians)
        self._sizes = [2 ** (size / CLASSES_OF_OCTAVE) for size in known]
        # More tokens never take less time; where they seem to, somebody else was at work.
        self._seconds = list(accumulate((self._medians[size] for size in known), max))
        self._known.clear()

    def is_known(self, n_tokens: int) -> bool:
        """Whether invocations of about so many tokens were measured often enough."""
        return _class_of(n_tokens) in self._medians

    def seconds(self, n_tokens: int) -> float:
        """The seconds of an invocation; 0 if none was measured."""
        if n_tokens not in self._known:
            self._known[n_tokens] = self._on_line(n_tokens)
        return self._known[n_tokens]

    def _on_line(self, n_tokens: int) -> float:
        sizes, seconds = self._sizes, self._seconds
        if not sizes:
            return 0.0
        if n_tokens <= sizes[0]:
            return seconds[0]
        if n_tokens >= sizes[-1]:
            return seconds[-1]
        last = next(i for i, size in enumerate(sizes) if size > n_tokens)
        share = (n_tokens - sizes[last - 1]) / (sizes[last] - sizes[last - 1])
        return seconds[last - 1] + share * (seconds[last] - seconds[last - 1])

    def summary(self) -> str:
        """The milliseconds of some sizes, for the log; empty if nothing was measured."""
        known = zip(self._sizes, self._seconds)
        return ", ".join(f"{1000 * seconds:.2f} ms for {size:.0f}" for size, seconds in known)


@lru_cache(maxsize=4096)
def _class_of(n_tokens: int) -> int:
    return round(CLASSES_OF_OCTAVE * math.log2(n_tokens))
