"""Checks which models the engine can run."""

from collections.abc import Iterator
from typing import Any, Optional

from fairseq.models import FairseqEncoder, FairseqLanguageModel
from fairseq.models.transformer import TransformerEncoder, TransformerEncoderBase
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import nn

from .stock_decoders import attention_departures, attentions_of, departures, layers_of


def unsupported_part(model: nn.Module) -> Optional[str]:
    """Describe the first part of a model that the engine cannot run; ``None`` if it can run all."""
    return next(_problems(model), None)


def _problems(model: Any) -> Iterator[str]:
    yield from departures(model, is_lm=isinstance(model, FairseqLanguageModel))
    for layer in layers_of(model.decoder):
        for attention in attentions_of(layer):
            yield from (f"the decoder: {problem}" for problem in _linears_of(attention))
        yield from linear_problems(layer)


def attention_problems(attention: nn.Module) -> Iterator[str]:
    """Describe the parts of an attention module that are not stock."""
    yield from attention_departures(attention)
    yield from _linears_of(attention)


def _linears_of(attention: nn.Module) -> Iterator[str]:
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        if type(linear) is not nn.Linear:
            yield f"an attention projection is a {type(linear).__name__}"


def linear_problems(layer: Any) -> Iterator[str]:
    """Describe the parts of a layer's feed-forward network that are not stock."""
    for linear in (layer.fc1, layer.fc2):
        if type(linear) is not nn.Linear:
            yield f"a feed-forward layer is a {type(linear).__name__}"


def runs_prepared(encoder: FairseqEncoder) -> bool:
    """Return True for a stock transformer encoder, which the engine can prepare."""
    stock = (TransformerEncoder, TransformerEncoderBase)
    return (
        isinstance(encoder, TransformerEncoderBase)
        and all(
            any(getattr(type(encoder), method) is getattr(base, method) for base in stock)
            for method in ("forward", "forward_scriptable", "forward_embedding")
        )
        and type(encoder.embed_tokens) is nn.Embedding
        and encoder.quant_noise is None
        and len(encoder.layers) > 0
        and all(_runs_prepared(layer) for layer in layers_of(encoder))
    )


def _runs_prepared(layer: Any) -> bool:
    return (
        isinstance(layer, TransformerEncoderLayerBase)
        and type(layer).forward is TransformerEncoderLayerBase.forward
        and type(layer).residual_connection is TransformerEncoderLayerBase.residual_connection
        and not any(attention_problems(layer.self_attn))
        and not any(linear_problems(layer))
    )
