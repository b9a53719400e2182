"""Blockwise parallel decoding (Stern, Shazeer and Uszkoreit, NeurIPS 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.searches import SearchOptions
from ...packing.heads import heads_agree
from ..option_rules import option
from .acceptance import AcceptanceTest, acceptance_of
from .generator import SingleHypothesisMethod
from .given_drafts import opened
from .outputs import OutputBatch
from .proposals import chain_of

if TYPE_CHECKING:
    from ..options import DecodingOptions

PROPOSAL_PRECISION_CHOICES = ChoiceEnum(["engine", "rough"])

# The default of --proposal-confidence with exact verification.
DEFAULT_CONFIDENCE = 0.5


@dataclass
class BlockwiseOptions:
    """The options for the heads' proposals; see ``AcceptanceOptions`` for accepting them."""

    decoding_block_size: Optional[int] = option(
        None,
        "blockwise: propose this many tokens a step, 1 to the trained block size "
        "(default: the trained block size)",
        methods=("blockwise", "auto"),
        at_least=1,
    )
    proposal_types: Optional[int] = option(
        None,
        "blockwise: the heads propose the first N types of the target dictionary, the most "
        "frequent ones; p_1 still chooses among all. 0 = all (default: 4096 for --acceptance "
        "exact, where it cannot change the output, otherwise all)",
        methods=("blockwise", "auto"),
        at_least=0,
    )
    proposal_precision: Optional[PROPOSAL_PRECISION_CHOICES] = option(
        None,
        "blockwise, auto: precision of the heads' matrix products on a CPU: engine = that of "
        "--engine-precision; rough = int8, which is faster. p_1 is not affected. With --acceptance "
        "exact, neither is the output (default: engine, but rough with --acceptance exact and "
        "--engine-precision model)",
        methods=("blockwise", "auto"),
    )
    proposal_confidence: Optional[float] = option(
        None,
        "blockwise, auto: stop proposing when the joint probability of the proposed tokens, by the "
        "heads' own estimate, falls below this. 0 = never stop (default: 0 for parallel heads and "
        "for --acceptance other than exact; otherwise 0.5, and no proposals at all while they make "
        "decoding slower)",
        methods=("blockwise", "auto"),
        at_least=0,
        at_most=(1, "it is a probability"),
    )


class Blockwise(SingleHypothesisMethod):
    """k heads predict, p_1 verifies, the longest accepted prefix stays.

    With ``--acceptance exact`` the output is p_1's greedy output.
    """

    verifies_drafts = True

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options = self.options
        self._n_heads = number_of_heads(options, self.network.block_sizes)
        if not heads_agree(models):
            raise ValueError(
                "--path: models with and without --block-heads sequential cannot be combined; give "
                "models of one kind, or use --decoding greedy"
            )
        self._test, self._acceptance = acceptance_of(options, self.dictionary)
        given = options.proposal_confidence
        is_limited = options.keeps_p1_tokens and self.network.has_sequential_heads
        default = DEFAULT_CONFIDENCE if is_limited else 0.0
        self._confidence = default if given is None else given
        # In torch, steps take hardly longer for several tokens, and all steps have proposals.
        self._by_time = options.proposes_by_time or (given is None and is_limited)

    @property
    def n_proposing_heads(self) -> int:
        return self._n_heads

    def search_options(self) -> SearchOptions:
        return SearchOptions(
            "blocks",
            {
                "decoding_block_size": self._n_heads,
                "proposal_confidence": self._confidence,
                "by_time": self._by_time,
                **self._acceptance,
            },
        )

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        given, sizes = self.given_drafts, [last[:0]]
        given.begin(batch)
        # The first invocation only predicts, unless there are drafts. p_1's prediction after the
        # accepted tokens is certain: y_{j+1}, [R].
        drafts = given.put_first(batch, last.new_empty((batch.n_rows, 0)))
        first = opened(batch, last, drafts, given)
        certain, certain_score = first.behind(first.answers), first.behind(first.scores)
        features = first.behind(first.features)
        while True:
            certain, certain_score, features = batch.without_ended(certain, certain_score, features)
            if not batch.n_rows:
                break
            # Predict: y_{j+i} = argmax p_i(y_{j+i} | y_1 ... y_j, x) for i = 1 ... k (section 3).
            proposals = chain_of(batch, features, certain, self._n_heads, self._confidence)
            proposals = given.put_first(batch, proposals, certain)
            block = torch.cat([certain[:, None], proposals], dim=1)
            # Verify: p_1 predicts the token after each token of the block. This invocation also
            # computes the features of the next prediction (section 4).
            fed = batch.step(block)
            log_probs = batch.log_probs(fed, 1)
            # Accept: extend the output by the longest accepted prefix, j <- j + n (section 3).
            n = accepted(proposals, log_probs, self._test)
            scores = log_probs[:, :-1].gather(-1, proposals[:, :, None]).squeeze(-1)
            scores = torch.cat([certain_score[:, None], scores], dim=1)
            best_scores, best = log_probs.max(dim=-1)
            batch.observe(1, proposals, best, best_scores, n)
            n_taken = batch.keep(block, scores, n)
            sizes.append(n_taken.masked_fill(given.n_proposed(batch, 0).ne(0), 0))
            given.learn(batch, n - 1)
            # The next prediction starts at the last accepted token.
            end = torch.arange(batch.n_rows, device=n.device), n - 1
            certain, certain_score, features = best[end], best_scores[end], fed[end]
        # Rows that had ended or had drafts took no proposals of heads.
        self._count_heads([size for size in torch.cat(sizes).tolist() if size])

    def _count_heads(self, block_sizes: list[int]) -> None:
        """Count how often the proposals of p_2, p_3, ... were accepted, for the statistics."""
        heads = range(1, self._n_heads)
        accepted_of = [sum(size > head for size in block_sizes) for head in heads]
        self.statistics.count_heads([len(block_sizes)] * len(heads), accepted_of)


def number_of_heads(options: "DecodingOptions", trained: Sequence[int]) -> int:
    """k, the number of heads that propose, p_1 included: ``--decoding-block-size``.

    Args:
        trained: the number of heads of each model.

    Raises:
        ValueError: if no model has heads, or one has fewer heads than requested.
    """
    with_heads = [n for n in trained if n]
    if not with_heads:
        which = "the model has" if len(trained) == 1 else f"the {len(trained)} models have"
        raise ValueError(
            f"--decoding blockwise: {which} no prediction heads; train heads with --arch "
            "blockwise_transformer --criterion random_sub_loss --finetune-from-model CHECKPOINT, "
            "or use --decoding greedy"
        )
    most = min(with_heads)
    n_heads = options.decoding_block_size or most
    if n_heads > most:
        raise ValueError(
            f"--decoding-block-size {n_heads}: the model was trained with --block-size {most}; "
            f"choose 1 to {most}"
        )
    if options.min_block_size > n_heads:
        raise ValueError(
            f"--min-block-size {options.min_block_size}: larger than the block, {n_heads} tokens; "
            "lower it or raise --decoding-block-size"
        )
    return n_heads


def accepted(proposals: Tensor, log_probs: Tensor, test: AcceptanceTest) -> Tensor:
    """The number of accepted tokens of each block: the first one, predicted by p_1, and proposals.

    Args:
        proposals: int64 ``[R, T - 1]``.
        log_probs: p_1's log-probabilities after each token of the block, float32 ``[R, T, V]``.

    Returns:
        int64 ``[R]``
    """
    is_accepted = test(proposals, log_probs[:, :-1])
    return 1 + is_accepted.long().cumprod(dim=1).sum(dim=1)
