"""Models that :class:`~.transformer.TransformerNetwork` can step, and those that fairseq must."""

import inspect
from typing import Iterator, Optional

from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from fairseq.models.roberta.model import RobertaLMHead
from fairseq.models.transformer import TransformerDecoder, TransformerDecoderBase
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import nn

from ..lean_imports import class_of

# Decoders of speech that compute what the stock ones do, and return other things as well.
SPEECH_DECODERS = (
    ("fairseq.models.speech_to_text.convtransformer", "TransformerDecoderNoExtra"),
    ("fairseq.models.speech_to_text.s2t_transformer", "TransformerDecoderScriptable"),
)


def departure_from_stock(model: nn.Module) -> Optional[str]:
    """The first part of a model that differs from stock transformers', in words; or ``None``."""
    return next(_departures(model), None)


def decodes_incrementally(model: nn.Module) -> bool:
    """Whether fairseq's incremental decoding can step a model, one token at a time.

    Non-autoregressive decoders inherit its interface and do not keep it. Prediction heads and
    several tokens a step need a stock transformer.
    """
    if not isinstance(model, FairseqEncoderDecoderModel):
        return False
    decoder = model.decoder
    return (
        isinstance(decoder, FairseqIncrementalDecoder)
        and "incremental_state" in inspect.signature(decoder.forward).parameters
        and not hasattr(decoder, "head_features")
        and getattr(decoder, "tokens_per_step", 1) == 1
    )


def _departures(model: nn.Module) -> Iterator[str]:
    name = type(model).__name__
    if not isinstance(model, FairseqEncoderDecoderModel):
        yield f"{name} is not an encoder-decoder model"
    decoder = model.decoder
    of_nat = class_of("fairseq.models.nat.fairseq_nat_model", "FairseqNATDecoder")
    if isinstance(decoder, of_nat):
        yield f"{name} is not autoregressive"
    if not isinstance(decoder, TransformerDecoderBase):
        yield f"{name} has a {type(decoder).__name__}, not a transformer decoder"
    if not (_has_stock_features(decoder) and _has_known_forward(decoder)):
        yield f"{type(decoder).__name__} computes its features in its own way"
    if decoder.adaptive_softmax is not None:
        yield "the model has an adaptive softmax (--adaptive-softmax-cutoff)"
    if type(decoder.output_projection) not in (nn.Linear, RobertaLMHead):
        yield f"the output layer is a {type(decoder.output_projection).__name__}, not linear"
    if type(decoder.embed_tokens) is not nn.Embedding:
        yield f"the target embedding is a {type(decoder.embed_tokens).__name__} (--adaptive-input?)"
    if decoder.quant_noise is not None:
        yield "the model was trained with product-quantisation noise (--quant-noise-pq)"
    if decoder.cross_self_attention:
        yield "the model attends to source and target at once (--cross-self-attention)"
    if not len(decoder.layers):
        yield "the decoder has no layers (--decoder-layers 0)"
    for index in range(len(decoder.layers)):
        yield from _departures_of_layer(decoder.layers[index])


def _has_stock_features(decoder: TransformerDecoderBase) -> bool:
    of_speech = (known for place in SPEECH_DECODERS for known in class_of(*place))
    stock = (TransformerDecoder, TransformerDecoderBase, *of_speech)
    return all(
        any(getattr(type(decoder), method) is getattr(base, method) for base in stock)
        for method in ("extract_features", "extract_features_scriptable", "output_layer")
    )


def _has_known_forward(decoder: TransformerDecoderBase) -> bool:
    """Decoders with heads offer them; those of pairs say how many tokens a step has."""
    own, base = type(decoder), TransformerDecoderBase
    if hasattr(decoder, "tokens_per_step"):
        return True
    has_stock_mask = own.buffered_future_mask is base.buffered_future_mask
    return has_stock_mask and (own.forward is base.forward or hasattr(decoder, "head_features"))


def _departures_of_layer(layer: nn.Module) -> Iterator[str]:
    name, stock = type(layer).__name__, TransformerDecoderLayerBase
    if not isinstance(layer, stock):
        yield f"a decoder layer is a {name} (--base-layers?)"
    for method in ("forward", "residual_connection"):
        if getattr(type(layer), method) is not getattr(stock, method):
            yield f"the decoder layer {name} overrides {method}"
    if layer.encoder_attn is None:
        yield "the decoder does not attend to the source (--no-cross-attention)"
    for attention in (layer.self_attn, layer.encoder_attn):
        if type(attention) is not MultiheadAttention:
            yield f"an attention is a {type(attention).__name__}"
        if attention.bias_k is not None or attention.add_zero_attn:
            yield "an attention adds a bias or zero key (add_bias_kv, add_zero_attn)"
        if getattr(attention, "use_xformers", False):
            yield "an attention is xFormers' (--decoder-xformers-att-config)"
