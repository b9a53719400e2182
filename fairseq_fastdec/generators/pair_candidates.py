"""The best pairs of tokens that continue each beam: DOUBLETOPK of Imamura and Sumita 2020."""

import math
from typing import NamedTuple, Tuple

import torch
from torch import Tensor

from .candidates import FullRows, best_extensions, best_of_each


class Pairs(NamedTuple):
    """Pairs that continue S beams, best first, ``[S, C]``; a total of ``-inf`` means none."""

    totals: Tensor  # float32, cumulative
    columns: Tensor  # int64, the entry that is continued
    tokens: Tensor  # int64 [S, C, 2], left and right
    scores: Tensor  # float32 [S, C, 2], their log-probabilities

    def take(self, order: Tensor) -> "Pairs":
        """The chosen ones of each beam, ``[S, C']``."""
        both = order[:, :, None].expand(-1, -1, 2)
        return Pairs(
            self.totals.gather(1, order),
            self.columns.gather(1, order),
            self.tokens.gather(1, both),
            self.scores.gather(1, both),
        )


def double_topk(
    left: Tensor, right: Tensor, totals: Tensor, width: int, end: int
) -> Tuple[Pairs, Pairs]:
    """The W best pairs of each beam, and the W best of those that do not end (section 3.2).

    The two tokens of a pair are taken for independent of each other: first the 2W best left tokens
    of the beam, then the best right tokens, given the left ones' scores.

    The paper takes the 3W best pairs and says that W of them go on. They need not: where a beam is
    sure to end, pairs with an end token fill the list. So those that go on are looked for by
    themselves; where the paper's claim holds they are the same. More than W + 1 right tokens (one
    may be the end) of an entry are never among the best W pairs.

    Args:
        left, right: log-probabilities float32 ``[S * W', V]`` of each entry's two tokens.
        totals: float32 ``[S, W']``, each entry's score so far; ``-inf``: there is none.
        width: W.
        end: the token that ends decoding, on either side.
    """
    n_beams, n_entries = totals.shape
    n_left = min(2 * width, n_entries * left.size(1))
    beams = FullRows(n_beams, n_entries, totals.device)
    lefts = best_extensions(left, totals.flatten(), beams, n_left)
    right_scores, right_tokens = best_of_each(right, width + 1)
    n_right = right_scores.size(1)

    # All pairs of these, flat: [S, 2W * (W + 1)].
    pair_totals = (lefts.scores[:, :, None] + right_scores[lefts.rows]).flatten(1)
    right_tokens = right_tokens[lefts.rows]
    ends = (right_tokens.eq(end) | lefts.tokens.eq(end)[:, :, None]).flatten(1)
    # Both lists at once: [2, S, W].
    pools = torch.stack([pair_totals, pair_totals.masked_fill(ends, -math.inf)])
    chosen_totals, order = pools.topk(min(width, pools.size(2)), dim=2)
    choice = order // n_right
    rows = lefts.rows.expand(2, -1, -1).gather(2, choice)
    tokens = (
        lefts.tokens.expand(2, -1, -1).gather(2, choice),
        right_tokens.flatten(1).expand(2, -1, -1).gather(2, order),
    )
    own = (left[rows, tokens[0]], right[rows, tokens[1]])
    columns = rows % n_entries
    both = (chosen_totals, columns, torch.stack(tokens, dim=-1), torch.stack(own, dim=-1))
    best, unfinished = zip(*both)
    return Pairs(*best), Pairs(*unfinished)


def repeated(pairs: Pairs, ends: Tensor, end: int) -> Tensor:
    """Which of the pairs that end make the same sentence as a better one.

    Only a single token with the end on either side can: all other pairs of a sentence follow from
    its tokens.

    Args:
        ends: bool ``[S, C]``, the pairs with at least one end token.

    Returns:
        bool ``[S, C]``
    """
    left, right = pairs.tokens.unbind(dim=-1)
    last = torch.where(left.eq(end), right, left)
    same = pairs.columns[:, :, None].eq(pairs.columns[:, None])
    same &= last[:, :, None].eq(last[:, None]) & ends[:, None]
    return same.tril(-1).any(dim=2)
