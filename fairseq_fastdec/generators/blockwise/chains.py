"""Heads propose a chain of tokens, p_1 accepts its beginning (Stern et al. 2018, section 3)."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from ...engine import Features, at
from ..ranking import first_maximum
from ..single.batch import Batch
from .acceptance import Acceptance, Exact


class VerifiedBlock(NamedTuple):
    """The tokens of a step that p_1 accepted, for each of R rows.

    Attributes:
        tokens: int64 ``[R, D]``, the first of them p_1's own.
        scores: p_1's log-probabilities of the others, float32 ``[R, D - 1]``.
        n_kept: how many tokens are accepted, int64 ``[R]``, at least 1.
        path: their places among the tokens that were fed, int64 ``[R, D]``; ``None``: the first.
        features: ``[R, C]`` at the last accepted token.
        next_token: p_1's best token after it, int64 ``[R]``.
        next_score: its log-probability, float32 ``[R]``.
    """

    tokens: Tensor
    scores: Tensor
    n_kept: Tensor
    path: Optional[Tensor]
    features: Features
    next_token: Tensor
    next_score: Tensor


class BlockVerifier(ABC):
    """Makes a block of the features at a row's last position."""

    @abstractmethod
    def verify(self, batch: Batch, features: Features, certain: Tensor) -> VerifiedBlock:
        """Propose, feed the proposals, and accept.

        Args:
            features: ``[R, C]`` of each row's last position.
            certain: int64 ``[R]``, p_1's best token after it.
        """


class ChainVerifier(BlockVerifier):
    """The best token of each head in a row, of which the longest accepted prefix stays."""

    def __init__(self, block_size: int, rule: Acceptance) -> None:
        self._block_size = block_size
        self._rule = rule
        self._is_exact = isinstance(rule, Exact)

    def verify(self, batch: Batch, features: Features, certain: Tensor) -> VerifiedBlock:
        proposals = batch.proposals(features, self._block_size, verified=self._is_exact)
        block = torch.cat([certain[:, None], proposals], dim=1)
        fed = batch.feed(block)
        log_probs = batch.log_probs_of_block(fed, first_step=1)
        best_scores, best = first_maximum(log_probs)
        n_kept = 1 + self._count_accepted(log_probs, best, block)
        batch.observe(1, proposals, best, best_scores, n_kept)
        own_scores = log_probs[:, :-1].gather(-1, proposals[..., None]).squeeze(-1)
        last = n_kept - 1
        here = (at(known, last) for known in (fed, best, best_scores))
        return VerifiedBlock(block, own_scores, n_kept, None, *here)

    def _count_accepted(self, log_probs: Tensor, best: Tensor, block: Tensor) -> Tensor:
        """The number of proposals before the first that p_1 refuses: int64 ``[R]``."""
        verdict = self._rule.judge(log_probs[:, :-1], best[:, :-1], block[:, 1:])
        return verdict.long().cumprod(dim=1).sum(dim=1)
