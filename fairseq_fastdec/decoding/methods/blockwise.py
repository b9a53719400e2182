"""Blockwise parallel decoding (Stern, Shazeer and Uszkoreit, NeurIPS 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor
from torch.nn.functional import pad

from ...engine.network.heads import heads_agree
from ...engine.searches import BlockOptions
from ..option_rules import option
from .acceptance import AcceptanceTest, acceptance_of
from .generator import SingleHypothesisMethod
from .given_drafts import GivenDrafts, opened
from .outputs import OutputBatch
from .proposal_trees import tree_of
from .proposals import Proposed, chain_of

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
    proposal_tree: Optional[int] = option(
        None,
        "blockwise: verify this many proposals, arranged as a tree of the most probable "
        "continuations by all heads, and keep the longest path that p_1 agrees with: the same "
        "output in fewer steps (default: a chain of each head's best token)",
        methods=("blockwise",),
        at_least=1,
        at_most=(256, "a step computes the output layer for every one of them"),
        needs=("acceptance", ("exact",)),
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

    def check_together(self: "DecodingOptions") -> None:  # type: ignore[misc]
        """
        Raises:
            ValueError: for options that cannot be combined.
        """
        if self.proposal_tree is not None and self.min_block_size > 1:
            raise ValueError(
                f"--min-block-size {self.min_block_size}: cannot be combined with --proposal-tree, "
                "which keeps only tokens that p_1 agrees with; remove one of them"
            )


class Blockwise(SingleHypothesisMethod):
    """k heads predict, p_1 verifies, the longest accepted prefix stays.

    With ``--acceptance exact`` the output is p_1's greedy output. With ``--proposal-tree`` the
    heads propose several tokens for each position, and p_1 accepts the longest path that it agrees
    with.
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

    def search_options(self) -> BlockOptions:
        return BlockOptions(
            n_heads=self._n_heads,
            n_in_tree=self.options.proposal_tree or 0,
            confidence=self._confidence,
            by_time=self._by_time,
            acceptance=self._acceptance,
        )

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        given = self.given_drafts
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
            block = self._predict(batch, features, certain, self._n_heads)
            block = with_drafts(block, batch, given)
            # Verify: p_1 predicts the token after each token of the block. This invocation also
            # computes the features of the next prediction (section 4).
            fed = batch.step(block.tokens, block.parents)
            log_probs = batch.log_probs(fed, 1, block.depths)
            # Accept: extend the output by the longest accepted prefix, j <- j + n (section 3).
            path, n = accepted(block, log_probs, self._test)
            tokens = block.tokens.gather(1, path)
            row = torch.arange(batch.n_rows, device=path.device)
            of_path = log_probs[row[:, None], path]
            scores = of_path[:, :-1].gather(-1, tokens[:, 1:, None]).squeeze(-1)
            scores = torch.cat([certain_score[:, None], scores], dim=1)
            best_scores, best = of_path.max(dim=-1)
            is_tree = block.parents is not None
            batch.observe(1, tokens[:, 1:], best, best_scores, n, n if is_tree else None)
            n_taken = batch.keep(tokens, scores, n, path if is_tree else None)
            self._count_heads(n_taken[given.n_proposed(batch, 0).eq(0)].tolist())
            given.learn(batch, n - 1)
            # The next prediction starts at the last accepted token.
            certain, certain_score = best[row, n - 1], best_scores[row, n - 1]
            features = fed[row, path[row, n - 1]]

    def _predict(
        self, batch: OutputBatch, features: Tensor, certain: Tensor, n_heads: int
    ) -> Proposed:
        given = (batch, features, certain, n_heads)
        n_proposals = self.options.proposal_tree
        if n_proposals is None:
            return chain_of(*given, self._confidence)
        return tree_of(*given, n_proposals, self._confidence)

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
        ValueError: for models without heads, or with fewer than requested.
    """
    lacking = [str(number) for number, n in enumerate(trained, start=1) if n == 0]
    if lacking:
        which = "the model has"
        if len(lacking) == 1 and len(trained) > 1:
            which = f"model {lacking[0]} of the {len(trained)} in --path has"
        elif len(trained) > 1:
            which = f"models {', '.join(lacking)} of the {len(trained)} in --path have"
        raise ValueError(
            f"--decoding blockwise: {which} no prediction heads; train heads with --arch "
            "blockwise_transformer --criterion random_sub_loss --finetune-from-model CHECKPOINT, "
            "or use --decoding greedy"
        )
    most = min(trained)
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


def with_drafts(block: Proposed, batch: OutputBatch, given: GivenDrafts) -> Proposed:
    """Replace the heads' proposals by given drafts; in trees, a draft is a single path."""
    certain = block.tokens[:, 0]
    chains = given.put_first(batch, block.tokens[:, 1:], certain)
    is_drafted = given.n_proposed(batch, 0).gt(0)[:, None]
    if not is_drafted.any():
        return block
    tokens = torch.cat([certain[:, None], chains], dim=1)
    if block.parents is None or block.depths is None:
        return Proposed(tokens)
    places = torch.arange(tokens.size(1), device=tokens.device)
    # Padding tokens are children of the root and have no children.
    n_more = tokens.size(1) - block.tokens.size(1)
    parents, depths = (
        pad(block.parents, (0, n_more), value=0),
        pad(block.depths, (0, n_more), value=1),
    )
    is_padding = is_drafted & tokens.eq(batch.rules.pad)
    parents = torch.where(is_drafted, places - 1, parents).masked_fill(is_padding, 0)
    depths = torch.where(is_drafted, places, depths).masked_fill(is_padding, 1)
    return Proposed(tokens, parents, depths)


def accepted(block: Proposed, log_probs: Tensor, test: AcceptanceTest) -> tuple[Tensor, Tensor]:
    """The accepted tokens of each block: the first one, predicted by p_1, and proposals.

    Args:
        log_probs: p_1's log-probabilities after each token of the block, float32 ``[R, T, V]``.

    Returns:
        the indices of the accepted tokens in the block, int64 ``[R, D]``, and their number in each
        row, int64 ``[R]``
    """
    tokens, parents, _ = block
    if parents is None:
        is_accepted = test(tokens[:, 1:], log_probs[:, :-1])
        path = torch.arange(tokens.size(1), device=tokens.device).expand(tokens.shape)
        return path, 1 + is_accepted.long().cumprod(dim=1).sum(dim=1)
    paths = []
    columns = (tokens.tolist(), parents.tolist(), log_probs.argmax(dim=-1).tolist())
    for of_row, follows, best in zip(*columns):
        kept = [0]
        for index in range(1, len(of_row)):
            # A token comes after its parent, and siblings differ.
            if follows[index] == kept[-1] and of_row[index] == best[kept[-1]]:
                kept.append(index)
        paths.append(kept)
    n = [len(kept) for kept in paths]
    padded = [kept + [0] * (max(n) - len(kept)) for kept in paths]
    return tokens.new_tensor(padded), tokens.new_tensor(n)
