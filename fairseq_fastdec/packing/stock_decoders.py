"""Checks whether a model has one of fairseq's stock transformer decoders."""

from collections.abc import Iterator
from typing import Any

from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from fairseq.models.roberta.model import RobertaLMHead
from fairseq.models.transformer import TransformerDecoder, TransformerDecoderBase
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import nn

from ..fairseq_patches.lean_imports import class_of

STOCK_DECODERS = (TransformerDecoder, TransformerDecoderBase)
# These compute the same as the stock decoders, but return additional values.
DECODERS_OF_SPEECH = (
    ("fairseq.models.speech_to_text.convtransformer", "TransformerDecoderNoExtra"),
    ("fairseq.models.speech_to_text.s2t_transformer", "TransformerDecoderScriptable"),
)


def is_recurrent(layer: Any) -> bool:
    """Whether a decoder layer has the recurrent unit SSRU in place of self-attention."""
    return isinstance(layer.self_attn, class_of("fairseq_fastdec.models.ssru", "SSRU"))


def is_of_decoder(layer: Any) -> bool:
    """Whether a layer is a decoder's, which a language model's is too."""
    return hasattr(layer, "encoder_attn")


def has_first_input(coder: Any) -> bool:
    """Whether a decoder reads padding as its first input, as in Marian."""
    place = ("fairseq_fastdec.models.marian_transformer", "FirstInputEmbedding")
    return isinstance(coder.embed_tokens, class_of(*place))


def layers_of(coder: Any) -> list[Any]:
    """A coder's layers in order. Iterating ``coder.layers`` would skip some under LayerDrop."""
    return [coder.layers[index] for index in range(len(coder.layers))]


def departures(model: nn.Module, is_lm: bool = False) -> Iterator[str]:
    """Yield descriptions of the parts of a model that differ from stock transformers.

    Continuing after the first one may fail: a model without a transformer decoder has no layers.

    Args:
        is_lm: whether the model should be a language model instead of an encoder-decoder.
    """
    name = type(model).__name__
    if not isinstance(model, FairseqLanguageModel if is_lm else FairseqEncoderDecoderModel):
        yield f"{name} is not {'a language model' if is_lm else 'an encoder-decoder model'}"
    decoder: Any = model.decoder
    if is_nat(decoder):
        yield f"{name} is not autoregressive"
    if not isinstance(decoder, TransformerDecoderBase):
        yield f"{name} has a {type(decoder).__name__}, not a transformer decoder"
    if not _computes_stock_features(decoder):
        yield f"{type(decoder).__name__} overrides the computation of features"
    if decoder.adaptive_softmax is not None:
        yield "the model has an adaptive softmax (--adaptive-softmax-cutoff)"
    if type(decoder.output_projection) not in (nn.Linear, RobertaLMHead):
        yield f"the output layer is a {type(decoder.output_projection).__name__}, not linear"
    if type(decoder.embed_tokens) is not nn.Embedding and not has_first_input(decoder):
        yield f"the target embedding is a {type(decoder.embed_tokens).__name__} (--adaptive-input?)"
    if decoder.quant_noise is not None:
        yield "the model was trained with product-quantisation noise (--quant-noise-pq)"
    if decoder.cross_self_attention:
        yield "the model attends to source and target at once (--cross-self-attention)"
    if not len(decoder.layers):
        yield "the decoder has no layers (--decoder-layers 0)"
    for layer in layers_of(decoder):
        yield from _departures_of_layer(layer, is_lm)


def is_nat(decoder: object) -> bool:
    """Whether a decoder is one of fairseq's non-autoregressive ones."""
    return isinstance(
        decoder, class_of("fairseq.models.nat.fairseq_nat_model", "FairseqNATDecoder")
    )


def _computes_stock_features(decoder: TransformerDecoderBase) -> bool:
    of_speech = (known for place in DECODERS_OF_SPEECH for known in class_of(*place))
    stock = (*STOCK_DECODERS, *of_speech)
    return all(
        any(getattr(type(decoder), method) is getattr(base, method) for base in stock)
        for method in ("extract_features", "extract_features_scriptable", "output_layer")
    ) and _forward_is_known(decoder)


def _forward_is_known(decoder: TransformerDecoderBase) -> bool:
    # A decoder that adds heads to the stock features has head_features; one with a mask that is
    # causal by steps has tokens_per_step.
    decoder_class = type(decoder)
    stock_mask = decoder_class.buffered_future_mask is TransformerDecoderBase.buffered_future_mask
    if hasattr(decoder, "tokens_per_step"):
        return True
    stock = decoder_class.forward is TransformerDecoderBase.forward
    return stock_mask and (stock or hasattr(decoder, "head_features"))


def _departures_of_layer(layer: Any, is_lm: bool) -> Iterator[str]:
    name = type(layer).__name__
    if not isinstance(layer, TransformerDecoderLayerBase):
        yield f"a decoder layer is a {name} (--base-layers?)"
    for method in ("forward", "residual_connection"):
        if getattr(type(layer), method) is not getattr(TransformerDecoderLayerBase, method):
            yield f"the decoder layer {name} overrides {method}"
    if layer.encoder_attn is None and not is_lm:
        yield "the decoder does not attend to the source (--no-cross-attention)"
    for attention in attentions_of(layer):
        yield from (f"the decoder: {problem}" for problem in attention_departures(attention))


def attentions_of(layer: Any) -> list[Any]:
    """The attentions of a decoder layer: to the target, and to the source."""
    own = [] if is_recurrent(layer) else [layer.self_attn]
    return own if layer.encoder_attn is None else [*own, layer.encoder_attn]


def attention_departures(attention: Any) -> Iterator[str]:
    """Yield descriptions of the parts of an attention, without its linear layers, that are not
    stock.
    """
    name = type(attention).__name__
    if type(attention) is not MultiheadAttention:
        yield f"an attention is a {name}"
    if attention.bias_k is not None or attention.add_zero_attn:
        yield "an attention adds a bias or zero key (add_bias_kv, add_zero_attn)"
    if getattr(attention, "use_xformers", False):
        yield "an attention is xFormers' (--decoder-xformers-att-config)"
