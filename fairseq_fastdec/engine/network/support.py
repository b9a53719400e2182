"""A model that the engine cannot run is refused by name when the generator is built."""

from typing import Iterator, Optional

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.roberta.model import RobertaLMHead
from fairseq.models.transformer import TransformerDecoder, TransformerDecoderBase
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import nn

from ...lean_imports import class_of
from .weights import layers_of

INSTEAD = "use --decoding fairseq for this model"
INSTEAD_OF_NAT = "decode it with --task translation_lev"
STOCK_DECODERS = (TransformerDecoder, TransformerDecoderBase)
# They compute what the stock ones do, and return other things beside.
DECODERS_OF_SPEECH = (
    ("fairseq.models.speech_to_text.convtransformer", "TransformerDecoderNoExtra"),
    ("fairseq.models.speech_to_text.s2t_transformer", "TransformerDecoderScriptable"),
)


class UnsupportedModel(ValueError):
    """A model that the engine cannot reproduce exactly; the message names the part and a remedy."""


def check_supported(model: nn.Module) -> None:
    """Refuse models whose decoder is not a stock fairseq transformer decoder.

    Raises:
        UnsupportedModel: names the first part that the engine cannot run.
    """
    problem = unsupported_part(model)
    if problem is not None:
        is_nat = _is_nat(getattr(model, "decoder", None))
        raise UnsupportedModel(f"{problem}; {INSTEAD_OF_NAT if is_nat else INSTEAD}")


def unsupported_part(model: nn.Module) -> Optional[str]:
    """The first part of a model that the engine cannot run, in words; ``None`` if there is none."""
    return next(_problems(model), None)


def _problems(model: nn.Module) -> Iterator[str]:
    name = type(model).__name__
    if not isinstance(model, FairseqEncoderDecoderModel):
        yield f"{name} is not an encoder-decoder model"
    decoder = model.decoder
    if _is_nat(decoder):
        yield f"{name} is not autoregressive"
    if not isinstance(decoder, TransformerDecoderBase):
        yield f"{name} has a {type(decoder).__name__}, not a transformer decoder"
    if not _computes_stock_features(decoder):
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
    for layer in layers_of(decoder):
        yield from _layer_problems(layer)


def _is_nat(decoder: object) -> bool:
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
    # A decoder that adds heads on top of the stock features says so by offering them, and one whose
    # mask is causal by steps says how many tokens are in a step.
    own = type(decoder)
    stock_mask = own.buffered_future_mask is TransformerDecoderBase.buffered_future_mask
    if hasattr(decoder, "tokens_per_step"):
        return True
    stock = own.forward is TransformerDecoderBase.forward
    return stock_mask and (stock or hasattr(decoder, "head_features"))


def _layer_problems(layer: nn.Module) -> Iterator[str]:
    name = type(layer).__name__
    if not isinstance(layer, TransformerDecoderLayerBase):
        yield f"a decoder layer is a {name} (--base-layers?)"
    for method in ("forward", "residual_connection"):
        if getattr(type(layer), method) is not getattr(TransformerDecoderLayerBase, method):
            yield f"the decoder layer {name} overrides {method}"
    if layer.encoder_attn is None:
        yield "the decoder does not attend to the source (--no-cross-attention)"
    for attention in (layer.self_attn, layer.encoder_attn):
        yield from (f"the decoder: {problem}" for problem in attention_problems(attention))
    yield from linear_problems(layer)


def attention_problems(attention: nn.Module) -> Iterator[str]:
    """The parts of an attention that are not stock."""
    name = type(attention).__name__
    if type(attention) is not MultiheadAttention:
        yield f"an attention is a {name}"
    if attention.bias_k is not None or attention.add_zero_attn:
        yield "an attention adds a bias or zero key (add_bias_kv, add_zero_attn)"
    if getattr(attention, "use_xformers", False):
        yield "an attention is xFormers' (--decoder-xformers-att-config)"
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        if type(linear) is not nn.Linear:
            yield f"an attention projection is a {type(linear).__name__}"


def linear_problems(layer: nn.Module) -> Iterator[str]:
    """The parts of a layer's feed-forward network that are not stock."""
    for linear in (layer.fc1, layer.fc2):
        if type(linear) is not nn.Linear:
            yield f"a feed-forward layer is a {type(linear).__name__}"
