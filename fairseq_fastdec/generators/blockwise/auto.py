"""``--decoding auto``: greedy's output by whatever is fastest for the model, step by step."""

from typing import Optional, Sequence

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..single.adaptive import adaptive_search
from ..single.batch import Batch
from ..single.generator import SingleHypothesisGenerator
from .generator import decoding_block_size


class AutoGenerator(SingleHypothesisGenerator):
    """Chooses for each invocation among greedy decoding, lookahead's drafts and heads' trees.

    Heads take part if the model has some, and those of an ensemble are of one kind; their chains
    decode whole batches, where that is faster. See :func:`~..single.adaptive.adaptive_search`.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        n_heads = 1
        if self.session.block_size and self.session.heads_agree:
            n_heads = decoding_block_size(self.options, self.session.block_size)
        drafts = self.draft_source(replace_answers=True)
        self._search = adaptive_search(self, models, drafts, n_heads)

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        self._search.decode(batch, batch.open(bos, prefix))
