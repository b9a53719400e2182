"""Lookahead decoding: blocks of drafts that p_1 verifies; beyond the papers, and lossless."""

from typing import Optional, Sequence

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from .batch import Batch
from .choose_blocks import blocks_of
from .compiled_search import BlockOptions
from .generator import SingleHypothesisGenerator


class LookaheadGenerator(SingleHypothesisGenerator):
    """Jacobi decoding (Santilli et al. 2023) in a window that slides on with every settled token.

    With ``--draft ngram`` the drafts come from a pool of n-grams, as in lookahead decoding (Fu et
    al., 2024). Their pool holds all answers of the iterations; ours holds the settled ones. Where
    the pool knows nothing, the last invocation's answers are the drafts, as Jacobi's are.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        # A token that followed before is right more often than an answer to a wrong token.
        self._drafts = self.draft_source(replace_answers=True)

    def search_options(self) -> Optional[BlockOptions]:
        drafts = self.compiled_drafts(replaces_answers=True)
        return BlockOptions(window=self.options.lookahead_window, drafts=drafts)

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        last = batch.open(bos, prefix)
        self._decode_in_windows(batch, last, self.options.lookahead_window)

    def _decode_in_windows(self, batch: Batch, last: Tensor, window: int) -> None:
        drafts = self._drafts
        drafts.begin(batch)
        width = min(window, batch.n_left(0))
        blocks = blocks_of(batch, width)
        unknown = last.new_full((batch.n_rows, width - 1), self.rules.pad)
        # An invocation answers every position of the window: the first one's token is certain.
        blocks.begin(last, drafts.fill(batch, unknown, last.new_zeros(batch.n_rows)))
        drafts.learn(batch, *blocks.certain())
        while blocks.go_on():
            kept, n_kept = blocks.rest(min(window, batch.n_left(1)) - 1)
            blocks.propose(drafts.fill(batch, kept, n_kept, blocks.next_tokens))
            # An answer is final when every draft before it equals the answer at its position.
            blocks.verify()
            drafts.learn(batch, *blocks.certain())
