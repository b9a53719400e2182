"""Blockwise parallel decoding (Stern, Shazeer, Uszkoreit, NeurIPS 2018, sections 3 to 5)."""

from typing import List, Optional, Sequence, Tuple, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine import Features
from ..options import DecodingOptions
from ..single.batch import Batch, one_number
from ..single.generator import SingleHypothesisGenerator
from .acceptance import acceptance_rule
from .chains import BlockVerifier, ChainVerifier
from .proposal_trees import TreeVerifier


class BlockwiseGenerator(SingleHypothesisGenerator):
    """k heads propose, p_1 verifies, the longest accepted prefix stays.

    The n-th verification is merged with the (n+1)-st prediction (section 4): an invocation feeds
    the block that the last one proposed, and the features at the last accepted position give the
    next block. An output of m tokens takes at most m/k + 1 invocations where the heads agree.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options = self.options
        self._block_size = _decoding_block_size(options, self.session.block_size)
        if options.proposal_tree is None:
            rule = acceptance_rule(options, self.dictionary)
            self._verifier: BlockVerifier = ChainVerifier(self._block_size, rule)
        else:
            self._verifier = TreeVerifier(self._block_size, options.proposal_tree, self.rules)

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        last = batch.open(bos, prefix)
        if not batch.n_rows:
            return
        features = batch.feed_known(last[:, None])
        best_scores, best = batch.answers(features)
        batch.observe(0, best[:, 1:], best, best_scores, torch.ones_like(last))
        # p_1's token after the last accepted position is certain: it needs no verification.
        features, certain, score = features[:, 0], best[:, 0], best_scores[:, 0]
        taken = []
        while True:
            features, certain, score = self._end_rows(batch, features, certain, score)
            if not batch.n_rows:
                break
            # Section 3: predict, verify. Section 4: the verification predicts for the next step.
            block = self._verifier.verify(batch, features, certain)
            # Section 3: accept.
            scores = torch.cat([score[:, None], block.scores], dim=1)
            taken.append(batch.keep(block.tokens, scores, one_number(block.n_kept), block.path))
            features, certain, score = block.features, block.next_token, block.next_score
        self._count_heads(taken)

    def _end_rows(
        self, batch: Batch, features: Features, certain: Tensor, scores: Tensor
    ) -> Tuple[Features, Tensor, Tensor]:
        """Let rows leave that ended in their last block, or whose next token is surely EOS."""
        features, certain, scores = batch.without_finished(features, certain, scores)
        ends = certain.eq(self.eos)
        if not bool(ends.any()):
            return features, certain, scores
        batch.append(certain[:, None], scores[:, None], ends.long())
        return batch.without_finished(features, certain, scores)

    def _count_heads(self, taken: List[Union[int, Tensor]]) -> None:
        """Count how often each head's proposals were accepted.

        Args:
            taken: for each step, how many tokens each row took of its block.
        """
        sizes = [size for n in taken for size in ([n] if isinstance(n, int) else n.tolist())]
        heads = range(1, self._block_size)
        accepted = [sum(size > head for size in sizes) for head in heads]
        self.statistics.count_heads([len(sizes)] * len(heads), accepted)


def _decoding_block_size(options: DecodingOptions, trained: int) -> int:
    if trained == 0:
        raise ValueError(
            "--decoding blockwise: the model has no prediction heads; train one with --arch "
            "blockwise_transformer --criterion random_sub_loss (warm-started with "
            "--finetune-from-model), or use --decoding greedy"
        )
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
