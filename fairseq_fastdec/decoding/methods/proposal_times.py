"""Decides from measured times whether a method proposes tokens.

Proposals save time if a step takes hardly longer for several tokens than for one, and cost time if
a batch already uses the whole processor. This depends on the model, the precision, the processor
and the number of sentences, so the time per token is measured with and without proposals.
``cpp/proposal_times.h`` has the same rule.
"""

from collections import deque
from statistics import median_low
from time import perf_counter

from torch import Tensor

# The number of steps of a measurement with one sentence, and the minimum with many.
LONGEST_TRIAL, SHORTEST_TRIAL = 32, 4
# The measurements of each way before the first decision.
FIRST_TRIALS = 3
# In measurements: the time between two later trials of the slower way, which quadruples after each,
# and its maximum.
FIRST_REST, LONGEST_REST = 32, 512
# The number of measurements whose median is used: the process may have been interrupted.
N_REMEMBERED = 9
# The number of sizes of batches with separate measurements.
N_SIZES = 4
# The number of first steps that do not count; half of them have proposals.
COLD = 8


class TimesOfSize:
    """The time per token in steps with similar numbers of sentences."""

    def __init__(self, trial: int) -> None:
        """
        Args:
            trial: the number of steps of a measurement.
        """
        # The last measurements without and with proposals, in seconds per token.
        self._measured: tuple[deque[float], ...] = (
            deque(maxlen=N_REMEMBERED),
            deque(maxlen=N_REMEMBERED),
        )
        self._seconds, self._tokens = 0.0, 0  # of the current measurement
        self._trial, self._rest = trial, FIRST_REST * trial
        self._steps_left = 0  # until the next choice, which ends a measurement
        self._is_proposing, self._is_rested = True, False

    def proposes(self) -> bool:
        """Whether the next step has proposals."""
        if not self._steps_left:
            self._choose()
        self._steps_left -= 1
        return self._is_proposing

    def learn(self, seconds: float, n_tokens: int) -> None:
        """Record the time of the last step, which added n tokens to the outputs."""
        self._seconds, self._tokens = self._seconds + seconds, self._tokens + n_tokens
        if self._steps_left % self._trial:
            return
        if self._tokens:
            self._measured[self._is_proposing].append(self._seconds / self._tokens)
        self._seconds, self._tokens = 0.0, 0

    def _choose(self) -> None:
        without, proposing = self._measured
        is_due = min(len(proposing), len(without)) < FIRST_TRIALS
        if is_due:
            self._is_proposing = len(proposing) <= len(without)
        else:
            is_faster = median_low(proposing) <= median_low(without)
            if self._is_proposing == is_faster:
                is_due = self._is_rested
            else:
                # A trial of the slower way is repeated if it was faster than the other way: the
                # measurements before it may be wrong.
                latest, other = self._measured[self._is_proposing], self._measured[is_faster]
                is_due = not self._is_rested and latest[-1] < median_low(other)
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
        self.is_used = is_used
        # The more sentences, the fewer steps have enough blocks.
        trials = (max(LONGEST_TRIAL >> 2 * size, SHORTEST_TRIAL) for size in range(N_SIZES))
        self._of_sizes = [TimesOfSize(trial) for trial in trials]
        self._n_cold = 0

    def propose(self, n_rows: int) -> bool:
        """Whether the next step, for n sentences, has proposals."""
        if not self.is_used:
            return True
        self._size = self._of_sizes[min((n_rows.bit_length() - 1) // 2, N_SIZES - 1)]
        self._begin = perf_counter()
        if self._n_cold < COLD:
            return 2 * self._n_cold >= COLD
        return self._size.proposes()

    def learn(self, n_tokens: Tensor) -> None:
        """Record the last step, which ends now.

        Args:
            n_tokens: the number of tokens that it added to each output, int64 ``[R]``.
        """
        if not self.is_used:
            return
        # The first steps allocate memory.
        if self._n_cold < COLD:
            self._n_cold += 1
        else:
            # Reading the number waits for a GPU, so it precedes reading the clock.
            total = int(n_tokens.sum())
            self._size.learn(perf_counter() - self._begin, total)
