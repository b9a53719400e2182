"""The best pairs of tokens that continue each beam: DOUBLETOPK of Imamura and Sumita 2020."""

import math
from typing import NamedTuple, Tuple

import numpy as np

from .candidates import Rows, best_extensions, best_first, taken
from .choices import Choices


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
    n_beams, n_entries = totals.shape
    beam, column = np.indices(totals.shape).reshape(2, -1)
    rows = Rows(beam, column, n_beams, n_entries)
    lefts = best_extensions(left, totals.reshape(-1), rows, 2 * width)
    right_scores, right_tokens = (field[:, : width + 1][lefts.rows] for field in right)

    # All pairs of these, flat: [S, 2W * (W + 1)].
    pair_totals = (lefts.scores[:, :, None] + right_scores).reshape(n_beams, -1)
    ends = (right_tokens == end) | (lefts.tokens == end)[:, :, None]
    going_on = np.where(ends.reshape(n_beams, -1), np.float32(-math.inf), pair_totals)

    def best_of(pool: np.ndarray) -> Pairs:
        order = best_first(pool, width)
        choice = order // right_scores.shape[2]
        best, right_score, right_token = taken(
            order,
            pool,
            right_scores.reshape(n_beams, -1),
            right_tokens.reshape(n_beams, -1),
        )
        chosen, token, place = taken(choice, lefts.rows, lefts.tokens, lefts.places)
        return Pairs(
            best,
            chosen % n_entries,
            np.stack([token, right_token], axis=-1),
            np.stack([left.scores[chosen, place], right_score], axis=-1),
        )

    return best_of(pair_totals), best_of(going_on)


def repeated(pairs: Pairs, ends: np.ndarray, end: int) -> np.ndarray:
    """Which of the pairs that end make the same sentence as a better one.

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
