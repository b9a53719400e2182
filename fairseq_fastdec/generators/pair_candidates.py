"""The best pairs of tokens that continue each beam: DOUBLETOPK of Imamura and Sumita 2020."""

import math
from typing import NamedTuple, Tuple

import torch
from torch import Tensor

from .candidates import Rows, best_extensions


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


def double_topk(log_probs: Tensor, totals: Tensor, width: int, end: int) -> Tuple[Pairs, Pairs]:
    """The W best pairs of each beam, and the W best of those that do not end (section 3.2).

    The two tokens of a pair are taken for independent of each other: first the 2W best left tokens
    of the beam, then the best right tokens, given the left ones' scores.

    The paper takes the 3W best pairs and says that W of them go on. They need not: where a beam is
    sure to end, pairs with an end token fill the list. So those that go on are looked for by
    themselves; where the paper's claim holds they are the same. More than W + 1 right tokens (one
    may be the end) of an entry are never among the best W pairs.

    Args:
        log_probs: float32 ``[S, W', 2, V]``, of each entry's left and right token.
        totals: float32 ``[S, W']``, each entry's score so far; ``-inf``: there is none.
        width: W.
        end: the token that ends decoding, on either side.
    """
    n_beams, n_entries, _, vocabulary = log_probs.shape
    flat, flat_totals = log_probs.flatten(0, 1), totals.flatten()
    row = torch.arange(n_beams * n_entries, device=totals.device)
    rows = Rows(row // n_entries, row % n_entries, n_beams, n_entries)
    alone = Rows(row, torch.zeros_like(row), row.numel(), 1)
    left = best_extensions(flat[:, 0], flat_totals, rows, min(2 * width, n_entries * vocabulary))
    right = best_extensions(
        flat[:, 1], torch.zeros_like(flat_totals), alone, min(width + 1, vocabulary)
    )
    shape = (*left.rows.shape, right.tokens.size(1))
    pair_totals = left.scores[:, :, None] + right.scores[left.rows]
    tokens = torch.stack(
        [left.tokens[:, :, None].expand(shape), right.tokens[left.rows]], dim=-1
    ).flatten(1, 2)
    ends = tokens.eq(end).any(dim=-1)
    entry = left.rows[:, :, None].expand(shape).flatten(1)
    pair_totals = pair_totals.flatten(1)

    def best(scores: Tensor) -> Pairs:
        chosen_totals, order = scores.topk(min(width, scores.size(1)), dim=1)
        chosen = tokens.gather(1, order[:, :, None].expand(-1, -1, 2))
        chosen_rows = entry.gather(1, order)
        sides = torch.arange(2, device=order.device)
        own = flat[chosen_rows[:, :, None], sides, chosen]
        return Pairs(chosen_totals, chosen_rows % n_entries, chosen, own)

    return best(pair_totals), best(pair_totals.masked_fill(ends, -math.inf))
