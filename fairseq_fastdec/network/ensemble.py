"""Several models that decode together."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor
from torch.nn import functional as F

from .incremental import IncrementalNetwork
from .support import check_supported, departure_from_stock
from .transformer import TransformerNetwork


class Ensemble:
    """A network of one or several models, whose probabilities are averaged as in fairseq.

    Features are the concatenated features of all members, so C is the sum of the members' sizes.

    Attributes:
        members: the network of each model.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        temperature: float = 1.0,
        n_proposal_types: Optional[int] = None,
    ) -> None:
        """
        Args:
            models: models with the same dictionaries; sizes and architectures may differ.
            temperature: the divisor of logits.
            n_proposal_types: prediction heads propose only this number of types at the beginning of
                the vocabulary (default: all); :meth:`restrict` overrides it.

        Raises:
            UnsupportedModel: for a model that neither kind of network supports.
        """
        self.members = [_network_of(model, temperature) for model in models]
        self._n_proposal_types = n_proposal_types
        self._types: Optional[Tensor] = None
        self._sizes: list[int] = []

    @property
    def n_rows(self) -> int:
        """The number of rows, R."""
        return self.members[0].n_rows

    @property
    def block_sizes(self) -> list[int]:
        """The number of prediction heads of each member, including p_1; 0 without heads."""
        return [member.block_size for member in self.members]

    @property
    def has_sequential_heads(self) -> bool:
        """Return True if the heads are sequential, and support :meth:`begin_drafts`."""
        return any(member.has_sequential_heads for member in self.members)

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens that the models predict at once.

        Raises:
            ValueError: if they predict different numbers of tokens.
        """
        numbers = sorted({member.tokens_per_step for member in self.members})
        if len(numbers) > 1:
            raise ValueError(
                f"--path: models of {numbers[0]} and of {numbers[1]} tokens a step cannot decode "
                "together; give models with the same --tokens-per-step"
            )
        return numbers[0]

    def reset(self) -> None:
        """Remove all rows."""
        self._types = None
        for member in self.members:
            member.reset()

    def restrict(self, types: Sequence[np.ndarray], device: torch.device) -> None:
        """Restrict predictions, until :meth:`reset`, to the union of types, int64 ``[K]`` each."""
        self._types = torch.from_numpy(np.unique(np.concatenate(types))).to(device)

    def encode(self, net_input: dict[str, Any]) -> None:
        """Encode B sources, and append an empty row for each."""
        for member in self.members:
            member.encode(net_input)

    def step(self, tokens: Tensor, rows: Optional[Tensor] = None) -> Tensor:
        """Feed tokens int64 ``[R, T]``; see :meth:`TransformerNetwork.step`.

        Returns:
            features ``[R, T, C]``
        """
        features = [member.step(tokens, rows) for member in self.members]
        self._sizes = [part.size(-1) for part in features]
        return torch.cat(features, dim=-1)

    def keep(self, n: Tensor) -> None:
        """Keep the first n int64 ``[R]`` tokens of the last step, and remove the others."""
        for member in self.members:
            member.keep(n)

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of row ``rows[i]``: int64 ``[R']``."""
        for member in self.members:
            member.select(rows)

    def log_probs(self, features: Tensor) -> Tensor:
        """p_1's log-probabilities of the token after each position.

        Args:
            features: ``[..., C]``.

        Returns:
            float32 ``[..., V]`` for all dtypes of models, as in fairseq; ``-inf`` for types that
            :meth:`restrict` excludes
        """
        return _mean(
            [
                _normalized(member.scores(part).float(), self._types, member.is_normalized)
                for member, part in self._parts(features)
            ]
        )

    def head_log_probs(self, features: Tensor, n_heads: int) -> Tensor:
        """Log-probabilities of the parallel heads p_2 ... p_n, by the mean of models with heads.

        Args:
            features: ``[..., C]``.

        Returns:
            float32 ``[..., n_heads - 1, V]``; ``-inf`` for types that heads do not propose
        """
        parts = self._parts_with_heads(features)
        scores = [member.head_scores(part, 1, n_heads) for member, part in parts]
        return _mean([_normalized(x.float(), self._proposed_types(x)) for x in scores])

    def begin_drafts(self, features: Tensor) -> Tensor:
        """The first states of sequential heads: features ``[R, C]`` to ``[R, 1, C']``.

        C' is the sum of the sizes of the members with heads.
        """
        parts = self._parts_with_heads(features)
        return torch.cat([member.begin_drafts(part) for member, part in parts], dim=-1)[:, None]

    def extend_drafts(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Advance states ``[R, 1, C']`` of sequential heads by one token each, int64 ``[R, 1]``."""
        drafts = [member.extend_drafts(part, tokens) for member, part in self._drafts(states)]
        return torch.cat(drafts, dim=-1)

    def draft_log_probs(self, states: Tensor) -> Tensor:
        """Log-probabilities of the token after each state ``[..., C']``.

        Returns:
            float32 ``[..., V]``; ``-inf`` for types that heads do not propose
        """
        scores = [member.draft_scores(part) for member, part in self._drafts(states)]
        return _mean([_normalized(x.float(), self._proposed_types(x)) for x in scores])

    def _parts(self, features: Tensor) -> Iterator[tuple[Any, Tensor]]:
        """Each member with its part of the features ``[..., C]``."""
        return zip(self.members, features.split(self._sizes, dim=-1))

    def _parts_with_heads(self, features: Tensor) -> Iterator[tuple[Any, Tensor]]:
        """The members with heads, each with its part of the features ``[..., C]``."""
        return (own for own in self._parts(features) if own[0].block_size)

    def _drafts(self, states: Tensor) -> Iterator[tuple[Any, Tensor]]:
        """The members with heads, each with its part of the heads' states ``[..., C']``."""
        sizes = zip(self.members, self._sizes)
        parts = states.split([size for member, size in sizes if member.block_size], dim=-1)
        return zip((member for member in self.members if member.block_size), parts)

    def _proposed_types(self, scores: Tensor) -> Optional[Tensor]:
        """The types that heads propose, int64 ``[K]``; ``None`` for all."""
        if self._types is not None or self._n_proposal_types is None:
            return self._types
        return torch.arange(self._n_proposal_types, device=scores.device)


def _network_of(model: FairseqEncoderDecoderModel, temperature: float) -> Any:
    check_supported(model)
    if departure_from_stock(model) is None:
        return TransformerNetwork(model, temperature)
    return IncrementalNetwork(model, temperature)


def _normalized(scores: Tensor, types: Optional[Tensor], is_normalized: bool = False) -> Tensor:
    """Scores ``[..., V]`` as log-probabilities of the ``types`` int64 ``[K]``, or of all."""
    if types is not None:
        nothing = torch.full_like(scores, -math.inf)
        scores = nothing.index_copy(-1, types, scores.index_select(-1, types))
    return scores if is_normalized and types is None else F.log_softmax(scores, dim=-1)


def _mean(log_probs: list[Tensor]) -> Tensor:
    """The logarithms of the members' mean probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))
