"""The best pairs of tokens that continue each beam: DOUBLETOPK of Imamura and Sumita 2020."""

import math
from typing import NamedTuple, Tuple

import numpy as np

from ..beams.candidates import best_first, taken
from ..top_tokens import Choices


class Pairs(NamedTuple):
    """Pairs that continue S beams, best first, ``[S, C]``; a total of ``-inf`` means none."""

    totals: np.ndarray  # float32, cumulative
    columns: np.ndarray  # int64, the entry that is continued
    tokens: np.ndarray  # int64 [S, C, 2], left and right
    scores: np.ndarray  # float32 [S, C, 2], their log-probabilities

    def take(self, order: np.ndarray) -> "Pairs":
        """The chosen ones of each beam, ``[S, C']``."""
        return Pairs(*taken(order, *self))


def double_topk(
    left: Choices, right: Choices, totals: np.ndarray, width: int, end: int
) -> Tuple[Pairs, Pairs]:
    """The W best pairs of each beam, and the W best of those that do not end (section 3.2).

    The two tokens of a pair are taken for independent of each other: first the 2W best left tokens
    of the beam, then the best right tokens, given the left ones' scores.

    The paper takes the 3W best pairs and says that W of them go on. They need not: where a beam is
    sure to end, pairs with an end token fill the list. So those that go on are looked for by
    themselves; where the paper's claim holds they are the same. More than W + 1 right tokens (one
    may be the end) of an entry are never among the best W pairs.

    Args:
        left, right: the best tokens of each of the S * W' entries on either side: 2W on the left
            and W + 1 on the right, or more, or all there are.
        totals: float32 ``[S, W']``, each entry's score so far; ``-inf``: there is none.
        width: W.
        end: the token that ends decoding, on either side.
    """
    pool = _Pool(left, right, totals, width, end)
    best = pool.best(pool.totals, width)
    # Mostly nothing ends, and the same pairs go on.
    if not (best.tokens == end).any():
        return best, best
    going_on = np.where(pool.ends, np.float32(-math.inf), pool.totals)
    return best, pool.best(going_on, width)


class _Pool:
    """The pairs of the 2W best left tokens of each of S beams with W + 1 right tokens of theirs.

    Attributes:
        totals: float32 ``[S, 2W * (W + 1)]``
        ends: bool, whether one of the tokens is an end.
    """

    def __init__(
        self, left: Choices, right: Choices, totals: np.ndarray, width: int, end: int
    ) -> None:
        n_beams, self._n_entries = totals.shape
        self._left = left
        n_left = left.scores.shape[1]
        left_totals = (left.scores + totals.reshape(-1, 1)).reshape(n_beams, -1)
        order = best_first(left_totals, 2 * width)
        (best,) = taken(order, left_totals)
        self._rows = order // n_left + np.arange(0, totals.size, self._n_entries)[:, None]
        self._places = order % n_left
        right_scores = right.scores[self._rows, : width + 1]
        right_tokens = right.tokens[self._rows, : width + 1]
        self._n_right = right_scores.shape[2]
        self.totals = (best[:, :, None] + right_scores).reshape(n_beams, -1)
        left_ends = left.tokens[self._rows, self._places] == end
        self.ends = ((right_tokens == end) | left_ends[:, :, None]).reshape(n_beams, -1)
        self._right_scores = right_scores.reshape(n_beams, -1)
        self._right_tokens = right_tokens.reshape(n_beams, -1)

    def best(self, totals: np.ndarray, width: int) -> Pairs:
        """The ``width`` best of each beam, with the totals given."""
        order = best_first(totals, width)
        best, right_scores, right_tokens = taken(
            order, totals, self._right_scores, self._right_tokens
        )
        rows, places = taken(order // self._n_right, self._rows, self._places)
        tokens = (self._left.tokens[rows, places], right_tokens)
        scores = (self._left.scores[rows, places], right_scores)
        return Pairs(best, rows % self._n_entries, _side_by_side(tokens), _side_by_side(scores))


def _side_by_side(sides: Tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Left and right, ``[S, C]`` each, as ``[S, C, 2]``."""
    left, right = sides
    both = np.empty((*left.shape, 2), dtype=left.dtype)
    both[..., 0], both[..., 1] = left, right
    return both


def repeated(pairs: Pairs, ends: np.ndarray, end: int) -> np.ndarray:
    """Find the pairs that end and make the same sentence as a better one.

    Only a single token with the end on either side can: all other pairs of a sentence follow from
    its tokens.

    Args:
        ends: bool ``[S, C]``, the pairs with at least one end token.

    Returns:
        bool ``[S, C]``
    """
    left, right = pairs.tokens[..., 0], pairs.tokens[..., 1]
    last = np.where(left == end, right, left)
    same = pairs.columns[:, :, None] == pairs.columns[:, None]
    same &= (last[:, :, None] == last[:, None]) & ends[:, None]
    return np.tril(same, -1).any(axis=2)
