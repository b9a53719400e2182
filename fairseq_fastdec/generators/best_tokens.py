"""The best next token of each state, as fairseq's options have it."""

from functools import cached_property
from operator import is_
from typing import Dict, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ..engine import EnsembleSession, Features
from ..engine.kernels.best_token import BestToken
from ..engine.kernels.blocks import RowBlocks
from ..engine.kernels.head_trees import HeadTrees
from ..engine.kernels.heads import CompiledHeads
from ..engine.kernels.packed import Packed
from ..engine.kernels.transformer import Transformer
from ..engine.kernels.verification import Verification
from .constraints import GenerationRules
from .ranking import first_maximum
from .repeated_ngrams import RepeatedNgrams
from .top_tokens import Chooser


class BestTokens:
    """Chooses p_1's best token, or another head's, by compiled code where there is any.

    Compiled code looks at the logits as it computes them; torch writes them all down. One object
    serves all batches of a generator.

    Attributes:
        for_p1, for_proposals: the compiled code; ``None`` where there is none. There are two, since
            each prepares for one output layer.
        repeated_ngrams: says which tokens would repeat an n-gram; ``None`` where they may.
    """

    def __init__(self, session: EnsembleSession, rules: GenerationRules) -> None:
        self._session = session
        self._rules = rules
        options = (rules.impossible, rules.eos, rules.unk, rules.unkpen, session.temperature)
        self.for_p1 = BestToken.of(*options)
        self.for_proposals = BestToken.of(*options)
        self.repeated_ngrams = RepeatedNgrams.of(rules)
        self._head_trees: Dict[int, Optional[HeadTrees]] = {}
        self._row_blocks: Optional[RowBlocks] = None
        self._verification: Optional[Verification] = None

    def head_trees(self, n_heads: int, heads: CompiledHeads, layer: Packed) -> Optional[HeadTrees]:
        """Trees of the tokens of n heads, by compiled code; ``None`` where there is none."""
        known = self._head_trees.get(n_heads)
        if known is None or known.heads is not heads or known.layer is not layer:
            known = HeadTrees.of(heads, layer, self.chooser.compiled, self._session.temperature)
            self._head_trees[n_heads] = known
        return known

    def row_blocks(self, n_rows: int, most_new: int, dim: int) -> Optional[RowBlocks]:
        """Memory for the blocks of a batch, which is the next batch's, too; see :class:`RowBlocks`.

        Returns:
            ``None`` where nothing was compiled.
        """
        known = self._row_blocks
        if known is None or not known.has_room_for(n_rows, most_new, dim):
            self._row_blocks = known = RowBlocks.of(n_rows, most_new, dim)
        return known

    def verification(
        self, blocks: RowBlocks, transformer: Transformer, heads: Optional[CompiledHeads]
    ) -> Optional[Verification]:
        """Find what verifies these blocks in one call; ``None`` where nothing was compiled."""
        known, parts = self._verification, (blocks, transformer, self.for_p1, heads)
        if known is None or not all(map(is_, parts, known.parts)):
            assert self.for_p1 is not None
            self._verification = known = Verification.of(*parts)
        return known

    @cached_property
    def chooser(self) -> Chooser:
        """Chooses several tokens of each row; only trees ask for it."""
        return Chooser(self._rules)

    def of_p1(
        self,
        features: Features,
        steps: Optional[Tensor] = None,
        max_len: int = 0,
        n_waived: int = 0,
        forbidden: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor]:
        """p_1's best token after each position.

        Args:
            features: ``[R, T, C]``.
            steps: int64 ``[R, T]``, the step that each distribution is for (default: no rule about
                lengths restricts any).
            max_len, n_waived: as for :meth:`GenerationRules.constrain`.
            forbidden: int64 ``[R, T, M]``, as for :meth:`GenerationRules.forbid`.

        Returns:
            log-probabilities float32 ``[R, T]`` and tokens int64 ``[R, T]``
        """
        limits = (steps, max_len, n_waived)
        found = self._chosen(self.for_p1, features, 0, 1, False, *limits, forbidden)
        if found is None:
            log_probs = self._session.log_probs(features)[..., 0, :]
            self._constrained(log_probs, *limits)
            return first_maximum(self._rules.forbid(log_probs, forbidden))
        scores, tokens = found
        return scores.squeeze(-1), tokens.squeeze(-1)

    def of_heads(
        self,
        features: Features,
        n_heads: int,
        steps: Optional[Tensor] = None,
        max_len: int = 0,
        n_waived: int = 0,
    ) -> Tensor:
        """The best tokens of heads p_2 ... p_n.

        Args:
            features: ``[R, C]``.
            steps: int64 ``[R, n_heads - 1]``; this and the rest as for :meth:`of_p1`.

        Returns:
            int64 ``[R, n_heads - 1]``
        """
        limits = (steps, max_len, n_waived)
        found = self._chosen(self.for_proposals, features, 1, n_heads, True, *limits)
        if found is None:
            scores = self._session.ranking_scores(features, 1, n_heads, rough=True)
            return first_maximum(self._constrained(scores, *limits))[1]
        return found[1]

    def of_drafts(
        self, scores: Tensor, steps: Optional[Tensor], max_len: int, n_waived: int
    ) -> Tuple[Tensor, Tensor]:
        """The best of scores ``[R, W, V]``, which may be written to, and their tokens ``[R, W]``.

        Args:
            steps: int64 ``[R, W]``; this and the rest as for :meth:`of_p1`.
        """
        return first_maximum(self._constrained(scores, steps, max_len, n_waived))

    def _chosen(
        self,
        compiled: Optional[BestToken],
        features: Features,
        first: int,
        last: int,
        rough: bool,
        steps: Optional[Tensor],
        max_len: int,
        n_waived: int,
        forbidden: Optional[Tensor] = None,
    ) -> Optional[Tuple[Tensor, Tensor]]:
        """Scores and tokens ``[..., last - first]``; ``None`` where compiled code cannot help."""
        if compiled is None:
            return None
        product = self._session.pending(features, first, last, rough)
        if product is None:
            return None
        flags = self.flags_at(steps, max_len, n_waived)
        return compiled(*product, *flags, forbidden, normalize=first == 0)

    def flags_at(
        self, steps: Optional[Tensor], max_len: int, n_waived: int
    ) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Whether EOS is impossible, and whether it alone is possible, as compiled code takes it.

        Args:
            steps, max_len, n_waived: as for :meth:`of_p1`.

        Returns:
            bool, one for each step; ``None`` and ``None`` for no steps.
        """
        if steps is None:
            return None, None
        # Steps are mostly few, and begin to be compared long before torch has begun.
        numbers = steps.numpy()
        flags = self._rules.may_not_end(numbers, n_waived), self._rules.has_to_end(numbers, max_len)
        no_end, only_end = (torch.from_numpy(np.ascontiguousarray(flag)) for flag in flags)
        return no_end, only_end

    def _constrained(
        self, scores: Tensor, steps: Optional[Tensor], max_len: int, n_waived: int
    ) -> Tensor:
        """Apply fairseq's rules, in place, to scores ``[..., V]``; returns them."""
        if steps is None:
            return self._rules.penalize(scores)
        return self._rules.constrain(scores, steps, max_len, n_waived)
