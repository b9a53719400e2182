"""The parts that sessions have in common whose steps are fairseq's own."""

import inspect
from typing import Any, Dict, List, Optional

import torch
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn


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


class FairseqSession:
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
