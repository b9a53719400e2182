"""The best pairs of tokens that continue each beam: DOUBLETOPK of Imamura and Sumita 2020.

In numpy, and by a call of compiled code with the same results.
"""

import math
from typing import Optional, Tuple

import numpy as np

from ...engine import Scores, inheritance
from ...engine.kernels.pairs import PAIR, ChosenPairs, DoubleTopK
from ..beams.candidates import best_first, taken
from ..constraints import GenerationRules, TokenConstraints
from ..top_tokens import Choices, Chooser
from .pair_rows import PairRows


class PairChooser:
    """Chooses the pairs that continue beams, and writes those that go on to the rows."""

    def __init__(self, rules: GenerationRules, width: int, rows: PairRows) -> None:
        """
        Args:
            rules: whose EOS is the end-of-decoding token.
            width: W.
        """
        self._chooser = Chooser(rules)
        self._width = width
        self._end = rules.eos
        self._rows = rows
        self._compiled = DoubleTopK.of(width, rules.eos)
        self._placed: Optional[np.ndarray] = None

    def choose(self, scores: Scores, constraints: Optional[TokenConstraints]) -> ChosenPairs:
        """DOUBLETOPK; what goes on is written to the rows, as if all beams went on.

        Args:
            scores: of the rows' left and right tokens, ``[2R, V]``.
            constraints: on these; ``None`` if there are none.
        """
        if self._compiled is None:
            return self._choose_by_numpy(scores, constraints)
        members, normalized = scores
        rows, n = self._rows, 2 * self._width
        found = self._chooser.choose_by_beam(
            members, n, None, constraints, normalize=not normalized, beams=rows.beams
        )
        if found is None:
            return self._choose_by_numpy(scores, constraints)
        if self._placed is not rows.origins:
            self._compiled.place(rows.next_tokens, rows.totals, rows.origins)
            self._placed = rows.origins
        return self._compiled(found, rows.n_beams, rows.n_entries)

    def _choose_by_numpy(
        self, scores: Scores, constraints: Optional[TokenConstraints]
    ) -> ChosenPairs:
        rows, width = self._rows, self._width
        alone, normalized = scores.averaged()
        own = self._chooser.choose_by_row(alone, 2 * width, constraints, normalize=not normalized)
        left, right = (Choices(*(field[side::2] for field in own)) for side in (0, 1))
        totals = rows.totals[: rows.n_rows, 0].reshape(rows.n_beams, rows.n_entries)
        best, going_on = double_topk(left, right, totals, width, self._end)
        some_end = bool((ends_in(best, self._end) & (best["total"] > -math.inf)).any())
        some_lost = bool((going_on["total"][:, 0] == -math.inf).any())
        going_on = _in_places(going_on)
        return ChosenPairs(best, going_on, some_end, some_lost, rows.write(going_on))


def double_topk(
    left: Choices, right: Choices, totals: np.ndarray, width: int, end: int
) -> Tuple[np.ndarray, np.ndarray]:
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

    Returns:
        ``PAIR [S, W]`` each, best first
    """
    pool = _pool(left, right, totals, width)
    (best,) = taken(best_first(pool["total"], width), pool)
    ends = ends_in(pool, end)
    # Mostly nothing ends, and the same pairs go on.
    if not ends_in(best, end).any():
        return best, best
    pool["total"][ends] = -math.inf
    (going_on,) = taken(best_first(pool["total"], width), pool)
    return best, going_on


def _pool(left: Choices, right: Choices, totals: np.ndarray, width: int) -> np.ndarray:
    """Join the 2W best left tokens of each beam with W + 1 right tokens: ``PAIR [S, N]``."""
    n_beams, n_entries = totals.shape
    n_left = left.scores.shape[1]
    left_totals = (left.scores + totals.reshape(-1, 1)).reshape(n_beams, -1)
    order = best_first(left_totals, 2 * width)
    (best,) = taken(order, left_totals)
    columns, places = order // n_left, order % n_left
    rows = columns + n_entries * np.arange(n_beams)[:, None]
    right_scores = right.scores[rows, : width + 1]
    pool = np.empty(right_scores.shape, dtype=PAIR)
    pool["total"] = best[:, :, None] + right_scores
    pool["column"] = columns[:, :, None]
    pool["scores"][..., 0] = left.scores[rows, places][:, :, None]
    pool["scores"][..., 1] = right_scores
    pool["tokens"][..., 0] = left.tokens[rows, places][:, :, None]
    pool["tokens"][..., 1] = right.tokens[rows, : width + 1]
    return pool.reshape(n_beams, -1)


def _in_places(pairs: np.ndarray) -> np.ndarray:
    """The pairs ``[S, W]`` of each beam, the first that continues an entry in its column."""
    n_beams, width = pairs.shape
    # A beam has as many children as rows, so no child takes a row of another beam.
    first_row = width * np.arange(n_beams)[:, None]
    order = inheritance((first_row + pairs["column"]).reshape(-1), pairs.size)
    return pairs.reshape(-1)[order].reshape(pairs.shape)


def ends_in(pairs: np.ndarray, end: int) -> np.ndarray:
    """Whether one of a pair's tokens is the ``end``."""
    return (pairs["tokens"] == end).any(axis=-1)


def repeated(pairs: np.ndarray, ends: np.ndarray, end: int) -> np.ndarray:
    """Find the pairs that end and make the same sentence as a better one.

    Only a single token with the end on either side can: all other pairs of a sentence follow from
    its tokens.

    Args:
        pairs: ``PAIR [S, C]``, best first.
        ends: bool ``[S, C]``, the pairs with at least one end token.

    Returns:
        bool ``[S, C]``
    """
    left, right = pairs["tokens"][..., 0], pairs["tokens"][..., 1]
    last = np.where(left == end, right, left)
    columns = pairs["column"]
    same = columns[:, :, None] == columns[:, None]
    same &= (last[:, :, None] == last[:, None]) & ends[:, None]
    return np.tril(same, -1).any(axis=2)
