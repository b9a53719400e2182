"""Decides from measured times whether a method proposes tokens.

Proposals save time if a step takes hardly longer for several tokens than for one, and cost time if
a batch already uses the whole processor. This depends on the model, the precision, the processor
and the number of sentences, so the time per token is measured with and without proposals.
``cpp/proposal_times.h`` has the same rule.
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median_low
from time import perf_counter

# The number of steps of a measurement with one sentence, and the minimum with many.
LONGEST_TRIAL, SHORTEST_TRIAL = 64, 4
# In measurements: the time between the first two trials of the slower way, which quadruples after
# each, and its maximum.
FIRST_REST, LONGEST_REST = 32, 512
# The number of measurements whose median is used: the process may have been interrupted.
N_REMEMBERED = 9
# The number of sizes of batches with separate measurements.
N_SIZES = 4
# The number of first steps that do not count; half of them have proposals.
COLD = 8


@dataclass
class Way:
    """The last measurements of a way to decode; ``trial`` is the number of steps of each."""

    trial: int
    measured: "deque[float]" = field(default_factory=lambda: deque(maxlen=N_REMEMBERED))
    seconds: float = 0.0
    tokens: int = 0
    steps: int = 0

    def learn(self, seconds: float, n_tokens: int) -> None:
        """Add a step."""
        self.seconds, self.tokens = self.seconds + seconds, self.tokens + n_tokens
        self.steps += 1
        if self.steps == self.trial:
            if self.tokens:
                self.measured.append(self.seconds / self.tokens)
            self.seconds, self.tokens, self.steps = 0.0, 0, 0


class TimesOfSize:
    """The time per token in steps with similar numbers of sentences."""

    def __init__(self, trial: int) -> None:
        """
        Args:
            trial: the number of steps of a measurement.
        """
        self.ways = (Way(trial), Way(trial))  # without and with proposals
        self._trial, self._rest = trial, FIRST_REST * trial
        self._steps_left = 0
        self._is_proposing, self._is_rested = True, False

    def proposes(self) -> bool:
        """Whether the next step has proposals."""
        if not self._steps_left:
            self._choose()
        self._steps_left -= 1
        return self._is_proposing

    def learn(self, seconds: float, n_tokens: int) -> None:
        """Record the time of the last step, which added n tokens to the outputs."""
        self.ways[self._is_proposing].learn(seconds, n_tokens)

    def _choose(self) -> None:
        without, proposing = (way.measured for way in self.ways)
        is_due = not (proposing and without)
        if is_due:
            self._is_proposing = not proposing
        else:
            is_faster = median_low(proposing) <= median_low(without)
            is_due = self._is_rested and self._is_proposing == is_faster
            self._is_proposing = is_faster != is_due
        self._steps_left = self._trial if is_due else self._rest
        if is_due and self._is_rested:
            self._rest = min(4 * self._rest, LONGEST_REST * self._trial)
        self._is_rested = not is_due


class ProposalTimes:
    """The times for different numbers of sentences: less than 4, less than 16, and so on."""

    def __init__(self, is_used: bool) -> None:
        """
        Args:
            is_used: whether the times decide; otherwise all steps have proposals.
        """
        self._is_used = is_used
        # The more sentences, the fewer steps have enough blocks.
        trials = (max(LONGEST_TRIAL >> 2 * size, SHORTEST_TRIAL) for size in range(N_SIZES))
        self._of_sizes = [TimesOfSize(trial) for trial in trials]
        self._n_cold = 0

    def propose(self, n_rows: int) -> bool:
        """Whether the next step, for n sentences, has proposals."""
        if not self._is_used:
            return True
        self._size = self._of_sizes[min((n_rows.bit_length() - 1) // 2, N_SIZES - 1)]
        self._begin = perf_counter()
        if self._n_cold < COLD:
            return 2 * self._n_cold >= COLD
        return self._size.proposes()

    def learn(self, n_tokens: int) -> None:
        """Record the last step, which ends now and has added n tokens to the outputs."""
        if not self._is_used:
            return
        # The first steps allocate memory.
        if self._n_cold < COLD:
            self._n_cold += 1
        else:
            self._size.learn(perf_counter() - self._begin, n_tokens)
