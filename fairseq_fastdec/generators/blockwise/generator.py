"""Blockwise parallel decoding (Stern, Shazeer, Uszkoreit, NeurIPS 2018, sections 3 to 5)."""

from typing import List, Optional, Sequence, Union

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..options import DecodingOptions
from ..single.batch import Batch
from ..single.blocks import Blocks
from ..single.choose_blocks import blocks_of
from ..single.compiled_search import BlockOptions
from ..single.generator import SingleHypothesisGenerator
from .acceptance import Acceptance, Exact, acceptance_rule


class BlockwiseGenerator(SingleHypothesisGenerator):
    """k heads propose, p_1 verifies, the longest accepted prefix stays.

    The n-th verification is merged with the (n+1)-st prediction (section 4): an invocation feeds
    the block that the last one proposed, and the features at the last accepted position give the
    next block. An output of m tokens takes at most m/k + 1 invocations where the heads agree.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options = self.options
        _check_heads(self.session.block_sizes)
        if not self.session.heads_agree:
            raise ValueError(
                "--path: models with and without --block-heads sequential cannot propose together; "
                "give models of one kind, or use --decoding greedy"
            )
        self._n_heads = decoding_block_size(options, self.session.block_size)
        self._n_proposals = options.proposal_tree
        self._rule: Acceptance = Exact()
        if self._n_proposals is None:
            self._rule = acceptance_rule(options, self.dictionary)
        is_sure = self._rule.is_exact or options.proposal_confidence is not None
        self._confidence = self.proposal_confidence if is_sure else 0.0

    def search_options(self) -> Optional[BlockOptions]:
        return BlockOptions(
            n_heads=self._n_heads,
            n_in_tree=self._n_proposals or 0,
            confidence=self._confidence,
            acceptance=self._rule.compiled(),
        )

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        last = batch.open(bos, prefix)
        most_new = self._n_heads if self._n_proposals is None else 1 + self._n_proposals
        blocks = blocks_of(batch, most_new, self._rule)
        if self._n_proposals is None:
            blocks.announce_chains(self._n_heads, self._confidence)
        blocks.decode(last, self._propose, self._rule)
        self._count_heads(blocks.taken)

    def _propose(self, blocks: Blocks) -> None:
        if self._n_proposals is None:
            blocks.propose_chain(self._n_heads, self._confidence)
        else:
            blocks.propose_tree(self._n_heads, self._n_proposals, self._confidence)

    def _count_heads(self, taken: List[Union[int, Tensor]]) -> None:
        """Count how often each head's proposals were accepted.

        Args:
            taken: for each step, how many tokens each row took of its block.
        """
        sizes = [size for n in taken for size in ([n] if isinstance(n, int) else n.tolist())]
        longer = [0] * self._n_heads
        for size in sizes:
            for head in range(1, size):
                longer[head] += 1
        self.statistics.count_heads([len(sizes)] * (self._n_heads - 1), longer[1:])


def _check_heads(trained: Sequence[int]) -> None:
    """Check that each model has heads: ``trained`` is their number for each."""
    n_models = len(trained)
    lacking = [str(number) for number, n in enumerate(trained, start=1) if n == 0]
    if not lacking:
        return
    which = "the model has"
    if len(lacking) == 1 and n_models > 1:
        which = f"model {lacking[0]} of the {n_models} in --path has"
    elif n_models > 1:
        which = f"models {', '.join(lacking)} of the {n_models} in --path have"
    raise ValueError(
        f"--decoding blockwise: {which} no prediction heads; train heads with --arch "
        "blockwise_transformer --criterion random_sub_loss --finetune-from-model CHECKPOINT, or "
        "use --decoding greedy"
    )


def decoding_block_size(options: DecodingOptions, trained: int) -> int:
    """The number of heads that propose, p_1 among them.

    Raises:
        ValueError: if a model with ``trained`` heads, at least 1, cannot propose as many tokens.
    """
    wanted = options.decoding_block_size or trained
    if wanted > trained:
        raise ValueError(
            f"--decoding-block-size {wanted}: the model was trained with --block-size {trained}; "
            f"choose 1 to {trained}"
        )
    if options.min_block_size > wanted:
        raise ValueError(
            f"--min-block-size {options.min_block_size}: larger than the block, {wanted} tokens; "
            "lower it or raise --decoding-block-size"
        )
    return wanted
