"""Jacobi decoding with a sliding window and n-gram drafts: beyond the paper, and lossless."""

from torch import Tensor

from .batch import Batch
from .fixed_point import FixedPointGenerator


class LookaheadGenerator(FixedPointGenerator):
    """Every settled token leaves the window at once, and new positions enter at its end.

    With ``--draft ngram`` the drafts come from a pool of n-grams, as in lookahead decoding (Fu et
    al., 2024). Their pool holds all answers of the iterations; ours holds the settled ones.
    """

    drafts_replace_answers = True

    def widths(self, batch: Batch) -> Tensor:
        longest = batch.max_len + 1
        window = min(self.options.lookahead_window, longest)
        return (longest - batch.lengths).clamp(min=1, max=window)

    def taken(self, settled: Tensor, widths: Tensor, answers: Tensor) -> Tensor:
        return settled
