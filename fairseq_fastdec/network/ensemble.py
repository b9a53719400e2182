"""Several models that decode together."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from torch import Tensor
from torch.nn import functional as F

from .caches import ALL_ROWS, Rows, on_host
from .incremental import IncrementalNetwork
from .support import check_language_model, check_supported, departure_from_stock
from .transformer import TransformerNetwork


class Ensemble:
    """A network of one or several models, whose probabilities are averaged as in fairseq.

    Features are the concatenated features of all members, and of a language model behind them, so C
    is the sum of their sizes.

    Attributes:
        members: the network of each model.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        temperature: float = 1.0,
        n_proposal_types: Optional[int] = None,
        lm: Optional[FairseqLanguageModel] = None,
        lm_weight: float = 0.0,
    ) -> None:
        """
        Args:
            models: models with the same dictionaries; sizes and architectures may differ.
            temperature: the divisor of logits.
            n_proposal_types: prediction heads propose only this number of types at the beginning of
                the vocabulary (default: all), unless :meth:`encode` restricts the types.
            lm: a language model of the target's dictionary; its log-probabilities, times
                ``lm_weight``, are added to p_1's. The temperature does not apply to it.

        Raises:
            UnsupportedModel: for a model that neither kind of network supports.
        """
        self.members = [_network_of(model, temperature) for model in models]
        self._networks, self._lm_weight = [*self.members], lm_weight
        self._lm: Optional[TransformerNetwork] = None
        if lm is not None:
            check_language_model(lm)
            n_positions = min(model.max_decoder_positions() for model in models)
            self._lm = TransformerNetwork(lm, n_positions=n_positions)
            self._networks.append(self._lm)
        self._n_proposal_types = n_proposal_types
        # By row: the possible types, int64 [K]; empty if all are possible.
        self._types: list[Tensor] = []
        self._fed = ALL_ROWS
        self._sizes: list[int] = []

    @property
    def n_rows(self) -> int:
        """The number of rows, R."""
        return self.members[0].n_rows

    @property
    def accepts_ended_rows(self) -> bool:
        """Whether rows can be fed more tokens than the models have positions."""
        return all(member.accepts_ended_rows for member in self.members)

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
        self._types, self._fed = [], ALL_ROWS
        for network in self._networks:
            network.reset()

    def encode(
        self, net_input: dict[str, Any], types: Optional[Sequence[np.ndarray]] = None
    ) -> None:
        """Encode B sources, and append an empty row for each.

        Args:
            types: the types that each row may predict, int64 ``[K]`` (default: all).
        """
        if types is not None:
            self._types += map(torch.from_numpy, types)
        n_before = self.n_rows
        for member in self.members:
            member.encode(net_input)
        if self._lm is not None:
            self._lm.add(self.n_rows - n_before)

    def step(self, tokens: Tensor, rows: slice = ALL_ROWS) -> Tensor:
        """Feed tokens int64 ``[R, T]``; see :meth:`TransformerNetwork.step`.

        Returns:
            features ``[R, T, C]``
        """
        self._fed = rows
        features = [network.step(tokens, rows) for network in self._networks]
        self._sizes = [part.size(-1) for part in features]
        return _joined(features)

    def keep(self, n: Tensor) -> None:
        """Keep the first n int64 ``[R]`` tokens of the last step, and remove the others."""
        for network in self._networks:
            network.keep(n)

    def tighten(self, longest: int) -> None:
        """State that no row has more than ``longest`` tokens, so that fewer keys are read."""
        for network in self._networks:
            network.tighten(longest)

    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``; see :data:`.caches.Rows`."""
        self._fed = ALL_ROWS
        if self._types:
            self._types = [self._types[row] for row in on_host(rows)]
        for network in self._networks:
            network.select(rows)

    def log_probs(self, features: Tensor) -> Tensor:
        """p_1's log-probabilities of the token after each position, and those of a language model.

        Args:
            features: ``[..., C]``.

        Returns:
            float32 ``[..., V]`` for all dtypes of models, as in fairseq; ``-inf`` for types that a
            row may not predict
        """
        scores = [
            (member.scores(part).float(), member.is_normalized)
            for member, part in self._parts(features)
        ]
        excluded = self._impossible(scores[0][0])
        mean = _mean([_normalized(x, excluded, is_normalized) for x, is_normalized in scores])
        if self._lm is None:
            return mean
        part = features.split(self._sizes, dim=-1)[-1]
        added = self._lm_weight * _normalized(self._lm.scores(part).float(), excluded)
        # A negative weight times -inf would be inf.
        return mean + (added if excluded is None else added.masked_fill(excluded, 0))

    def head_log_probs(self, features: Tensor, n_heads: int) -> Tensor:
        """Log-probabilities of the parallel heads p_2 ... p_n, by the mean of models with heads.

        Args:
            features: ``[..., C]``.

        Returns:
            float32 ``[..., n_heads - 1, V]``; ``-inf`` for types that heads do not propose
        """
        parts = self._parts_with_heads(features)
        scores = [member.head_scores(part, 1, n_heads) for member, part in parts]
        return _mean([_normalized(x.float(), self._unproposed(x)) for x in scores])

    def begin_drafts(self, features: Tensor) -> Tensor:
        """The first states of sequential heads: features ``[R, C]`` to ``[R, 1, C']``.

        C' is the sum of the sizes of the members with heads.
        """
        parts = self._parts_with_heads(features)
        return _joined([member.begin_drafts(part) for member, part in parts])[:, None]

    def extend_drafts(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Advance states ``[R, 1, C']`` of sequential heads by one token each, int64 ``[R, 1]``."""
        return _joined(
            [member.extend_drafts(part, tokens) for member, part in self._drafts(states)]
        )

    def draft_log_probs(self, states: Tensor) -> Tensor:
        """Log-probabilities of the token after each state ``[..., C']``.

        Returns:
            float32 ``[..., V]``; ``-inf`` for types that heads do not propose
        """
        scores = [member.draft_scores(part) for member, part in self._drafts(states)]
        return _mean([_normalized(x.float(), self._unproposed(x)) for x in scores])

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

    def _impossible(self, scores: Tensor) -> Optional[Tensor]:
        """The types that the rows of scores ``[R, ..., V]`` may not predict: bool, or ``None``."""
        if not self._types:
            return None
        types = self._types[self._fed]
        excluded = torch.ones(len(types), scores.size(-1), dtype=torch.bool)
        for row, own in enumerate(types):
            excluded[row, own] = False
        shape = (len(types), *[1] * (scores.dim() - 2), scores.size(-1))
        return excluded.view(shape).to(scores.device)

    def _unproposed(self, scores: Tensor) -> Optional[Tensor]:
        """The types that heads do not propose, as :meth:`_impossible`."""
        if self._types or self._n_proposal_types is None:
            return self._impossible(scores)
        return torch.arange(scores.size(-1), device=scores.device) >= self._n_proposal_types


def _network_of(model: FairseqEncoderDecoderModel, temperature: float) -> Any:
    check_supported(model)
    if departure_from_stock(model) is None:
        return TransformerNetwork(model, temperature)
    return IncrementalNetwork(model, temperature)


def _normalized(scores: Tensor, excluded: Optional[Tensor], is_normalized: bool = False) -> Tensor:
    """Scores ``[..., V]`` as log-probabilities of the types that are not excluded."""
    if excluded is not None:
        scores = scores.masked_fill(excluded, -math.inf)
    return scores if is_normalized and excluded is None else F.log_softmax(scores, dim=-1)


def _joined(parts: list[Tensor]) -> Tensor:
    """The features of all members: ``[..., C]``."""
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def _mean(log_probs: list[Tensor]) -> Tensor:
    """The logarithms of the members' mean probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))
