"""Blockwise parallel decoding (Stern, Shazeer, Uszkoreit, NeurIPS 2018, sections 3 to 5)."""

from typing import Any, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine.ensemble import at
from .acceptance import acceptance_rule
from .base import Generator
from .batch import Batch
from .options import DecodingOptions


class BlockwiseGenerator(Generator):
    """k heads propose, p_1 verifies, the longest accepted prefix stays.

    The n-th verification is merged with the (n+1)-st prediction (section 4): an invocation feeds
    the block that the last one proposed, and the features at the last accepted position give the
    next block. An output of m tokens takes at most m/k + 1 invocations where the heads agree.
    """

    name = "blockwise"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        args: Any,
        options: DecodingOptions,
        symbols_to_strip_from_output: Sequence[int] = (),
    ) -> None:
        super().__init__(models, dictionary, args, options, symbols_to_strip_from_output)
        self._block_size = _decoding_block_size(options, self.session.block_size)
        self._acceptance = acceptance_rule(options, dictionary)

    @property
    def block_size(self) -> int:
        return self._block_size

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        features = batch.start(bos, prefix)
        if not batch.n_rows:
            return
        n_verified = torch.zeros(self._block_size, dtype=torch.long, device=batch.lengths.device)
        # p_1's token after the last accepted position needs no verification.
        scores, certain = batch.log_probs(features).max(dim=-1)
        while True:
            took = batch.append(certain[:, None], scores[:, None], (~batch.finished).long())
            batch.record_blocks(took * batch.finished)
            order = batch.leave()
            if order is not None:
                certain = certain[order]
                features = [member[order] for member in features]
            if not batch.n_rows:
                break
            # Predict.
            proposals = batch.proposals(features, self._block_size)
            fed = batch.feed(torch.cat([certain[:, None], proposals], dim=1))
            # Verify.
            log_probs = batch.log_probs_of_block(fed)
            best_scores, best = log_probs.max(dim=-1)
            verdict = self._acceptance.judge(log_probs[:, :-1], best[:, :-1], proposals)
            n_accepted = verdict.long().cumprod(dim=1).sum(dim=1)
            # Accept.
            proposal_scores = log_probs[:, :-1].gather(-1, proposals[..., None]).squeeze(-1)
            took = batch.append(proposals, proposal_scores, n_accepted)
            batch.session.commit(n_accepted + 1)
            batch.record_blocks(took + 1)
            n_verified += took.bincount(minlength=self._block_size)
            features = at(fed, n_accepted)
            certain = best.gather(1, n_accepted[:, None]).squeeze(1)
            scores = best_scores.gather(1, n_accepted[:, None]).squeeze(1)
        self._count_heads(n_verified)

    def _count_heads(self, n_verified: Tensor) -> None:
        """``n_verified[i]`` steps accepted exactly i proposals: head i+1's and those before."""
        counts = n_verified.tolist()
        steps = sum(counts)
        accepted = [sum(counts[head:]) for head in range(1, len(counts))]
        self.statistics.count_heads([steps] * len(accepted), accepted)


def _decoding_block_size(options: DecodingOptions, trained: int) -> int:
    if trained == 1:
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
