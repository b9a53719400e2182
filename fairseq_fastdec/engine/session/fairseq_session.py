"""The parts that sessions have in common whose steps are fairseq's own."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Optional

import torch
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from .tree import TokenTree


def decodes_incrementally(model: nn.Module) -> bool:
    """Whether :class:`~.incremental.IncrementalSession` can run a model.

    It cannot run non-autoregressive decoders, which inherit the interface and do not keep it. Only
    the engine can use prediction heads, or decoders of several tokens a step.
    """
    if not isinstance(model, FairseqEncoderDecoderModel):
        return False
    decoder = model.decoder
    takes_state = "incremental_state" in inspect.signature(decoder.forward).parameters
    has_heads = hasattr(decoder, "head_features")
    one_token = getattr(decoder, "tokens_per_step", 1) == 1
    stepwise = takes_state and not has_heads and one_token
    return isinstance(decoder, FairseqIncrementalDecoder) and stepwise


class FairseqSession(ABC):
    """A session of one head whose features are the model's own log-probabilities.

    See :class:`~.decoder_session.DecoderSession` for what sessions are asked for.
    """

    normalized = True
    block_size = 0
    has_sequential_heads = False
    tokens_per_step = 1

    def __init__(self, model: FairseqEncoderDecoderModel, temperature: float = 1.0) -> None:
        """
        Args:
            temperature: divides what the decoder returns, where fairseq's generator divides it.
        """
        self._model = model
        self._temperature = temperature

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows now, without those that are paused."""

    @torch.no_grad()
    def step(self, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """Feed T tokens to every row, after the tokens that the row has committed.

        Args:
            tokens: int64 ``[R, T]``. Rows that have fewer to feed are filled up with anything.
            tree: must be ``None``: trees are of proposals, and such models have no heads for them.

        Returns:
            features ``[R, T, V]``: the model's own log-probabilities.

        Raises:
            RuntimeError: if there are no rows, or all are paused.
            ValueError: for a tree.
        """
        refuse_trees(tree)
        if not self.n_rows:
            raise RuntimeError("the session has no rows for a step; call reset and add first")
        return self._step(tokens)

    @abstractmethod
    def _step(self, tokens: Tensor) -> Tensor:
        """:meth:`step` of one row or more."""

    def project(
        self, features: Tensor, first: int = 0, last: int = 1, rough: bool = False
    ) -> Tensor:
        """The log-probabilities of the only head, from ``[..., V]`` to ``[..., 1, V]``.

        Args:
            features: from :meth:`step`.
            first, last, rough: ignored; the engine's sessions have more heads.

        Returns:
            log-probabilities, not logits, as ``normalized`` says
        """
        # Generators may write into scores, so they get a copy.
        return features.unsqueeze(-2).clone()

    def _log_probs(self, scores: Tensor, extra: List[Any]) -> Tensor:
        """Log-probabilities ``[..., V]``.

        Args:
            scores: the first of what the decoder returned, ``[..., V]``.
            extra: the others.
        """
        net_output = (scores / self._temperature, *extra)
        return self._model.get_normalized_probs(net_output, log_probs=True)


def source_lengths(net_input: Dict[str, Any]) -> Tensor:
    """The sources' lengths, int64 ``[B]``; 0 where a batch does not tell, as all are alike then.

    Audio models are given a padding mask instead, or nothing.
    """
    if "src_lengths" in net_input:
        return net_input["src_lengths"]
    padding = net_input.get("padding_mask")
    if padding is not None:
        return (~padding).sum(dim=1)
    content = next(value for value in net_input.values() if isinstance(value, Tensor))
    return torch.zeros(content.size(0), dtype=torch.long, device=content.device)


def refuse_trees(tree: Optional[object]) -> None:
    """
    Raises:
        ValueError: for a tree of tokens, or for a path in one.
    """
    if tree is not None:
        raise ValueError("trees of tokens: fairseq's incremental decoding cannot feed them")
