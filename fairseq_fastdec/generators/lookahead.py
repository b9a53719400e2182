"""Jacobi decoding with a sliding window and n-gram drafts: beyond the paper, and lossless."""

from torch import Tensor

from .batch import Batch
from .fixed_point import FixedPointGenerator


class LookaheadGenerator(FixedPointGenerator):
    """Every settled token leaves the window at once, and new positions enter at its end.

    With ``--draft ngram`` the drafts come from a pool of n-grams, as in lookahead decoding (Fu et
    al., 2024), whose pool holds what the iterations answered; ours holds what they settled.
    """

    name = "lookahead"
    drafts_replace_answers = True

    def widths(self, batch: Batch) -> Tensor:
        to_go = batch.max_len + 1 - batch.lengths
        return to_go.clamp(min=1, max=self.options.lookahead_window)

    def taken(self, settled: Tensor, widths: Tensor, answers: Tensor) -> Tensor:
        return settled
