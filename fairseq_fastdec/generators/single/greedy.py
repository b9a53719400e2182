"""Greedy decoding: the reference rule on the engine, and the tokens of fairseq's ``--beam 1``."""

from typing import Optional

from torch import Tensor

from .batch import Batch
from .choose_blocks import blocks_of
from .compiled_search import BlockOptions
from .generator import SingleHypothesisGenerator


class GreedyGenerator(SingleHypothesisGenerator):
    """One token a step (Stern et al. 2018, section 2)."""

    accepts_blocks = False

    def search_options(self) -> Optional[BlockOptions]:
        return BlockOptions(records_blocks=False)

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        decode_greedily(batch, bos, prefix)


def decode_greedily(batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
    """Extend every row by its best token until it ends.

    Args:
        bos, prefix: as for :meth:`~.generator.SingleHypothesisGenerator.decode`.
    """
    last = batch.open(bos, prefix)
    blocks_of(batch, 1).decode(last, lambda blocks: blocks.propose_nothing())
