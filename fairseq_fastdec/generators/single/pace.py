"""The number of proposals that is worth the time that verifying them takes."""

from typing import List, Sequence, Tuple

import numpy as np

from .invocation_costs import InvocationCosts

# The numbers of proposals among which a size is chosen.
SIZES = (0, 1, 2, 3, 5, 7, 11, 15, 23, 31)
# Sizes so much larger than the largest that was measured are tried, if they are worth it.
GROWTH = 2
# From time to time the next larger size is measured again, if it brings so many tokens more a row.
N_UNTIL_LARGER, LEAST_GAIN = 64, 0.1
# The rate is that of some hundred invocations.
DECAY = 0.99


class Pace:
    """The tokens a second of a search, and the proposals that raise them.

    A search whose invocations bring E tokens in c seconds has the highest rate where each of them
    has the largest ``E - rate * c``, for the rate that the search has (renewal theory). That is
    what an invocation is worth.
    """

    def __init__(self, costs: InvocationCosts) -> None:
        """
        Args:
            costs: of invocations, whoever made the proposals.
        """
        self._costs = costs
        self._tokens = self._seconds = 0.0
        self._n_chosen = 0

    def rate(self, n_rows: int) -> float:
        """Tokens a second of the last invocations, or of those without proposals if that is more.

        It is 0 before anything is known.
        """
        alone = self._costs.seconds(n_rows)
        least = n_rows / alone if alone else 0.0
        return max(least, self._tokens / self._seconds) if self._seconds else least

    def learn(self, tokens: int, seconds: float) -> None:
        """Learn from an invocation."""
        self._tokens = DECAY * self._tokens + tokens
        self._seconds = DECAY * self._seconds + seconds

    def worth(self, tokens: float, n_rows: int, n_proposals: int) -> float:
        """Say what an invocation is worth that brings so many tokens, with so many a row fed."""
        seconds = self._costs.seconds(n_rows * (1 + n_proposals))
        return tokens - self.rate(n_rows) * seconds

    def best_size(self, gains: Sequence[float], n_rows: int) -> Tuple[int, float]:
        """The number of proposals that is worth most, 1 or more.

        Args:
            gains: how many tokens of 1, 2, ... proposals a row will be accepted, all rows together.

        Returns:
            a number of proposals a row, and the worth of the invocation; 0 and ``-inf`` if there
            are no proposals.
        """
        rate, costs = self.rate(n_rows), self._costs
        most_tokens = GROWTH * costs.largest
        best, most_worth = 0, -np.inf
        for size in SIZES[1:]:
            n_tokens = n_rows * (1 + size)
            if size > len(gains) or (n_tokens > most_tokens and size > 1):
                break
            worth = n_rows + gains[size - 1] - rate * costs.seconds(n_tokens)
            if worth > most_worth:
                best, most_worth = size, worth
        self._n_chosen += 1
        if best and self._n_chosen % N_UNTIL_LARGER == 0:
            best = _next_larger(best, gains, LEAST_GAIN * n_rows)
        return best, most_worth


def _next_larger(size: int, gains: Sequence[float], least: float) -> int:
    """The next size, if that brings so many tokens more; else the same."""
    larger = next((other for other in SIZES if other > size), size)
    brings = larger <= len(gains) and gains[larger - 1] - gains[size - 1] > least
    return larger if brings else size


class AcceptanceRates:
    """Rates at which proposals of several kinds were accepted."""

    def __init__(self, guesses: Sequence[float]) -> None:
        """
        Args:
            guesses: the rates before anything is known, one for each kind.
        """
        self._tried = np.full(len(guesses), float(WEIGHT_OF_GUESS))
        self._accepted = self._tried * np.asarray(guesses)
        self.rates = np.asarray(guesses, dtype=float)

    def learn(self, tried: np.ndarray, accepted: np.ndarray) -> None:
        """
        Args:
            tried: the kinds of the proposals that were judged, int64.
            accepted: the kinds of those that were accepted.
        """
        n = self._tried.size
        self._tried += np.bincount(tried, minlength=n)
        self._accepted += np.bincount(accepted, minlength=n)
        is_old = self._tried > MOST_REMEMBERED
        if is_old.any():
            self._tried[is_old] /= 2
            self._accepted[is_old] /= 2
        self.rates = self._accepted / self._tried


# A guess at a rate counts as so many proposals, and the past as no more than so many.
WEIGHT_OF_GUESS = 4
MOST_REMEMBERED = 1000


def running_sums(chances: np.ndarray) -> List[float]:
    """The tokens that the first 1, 2, ... proposals of all rows will bring.

    Args:
        chances: float64 ``[R, N]``, of each to be accepted.
    """
    return chances.sum(axis=0).cumsum().tolist()
