"""A decoder's parameters in the layout of the engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn
from torch.nn import functional as F

from ..kernels.packed import PackedLinear
from ..products.precision import Precision, PreparedNorm, in_fp32, norm_of
from .own_weights import OwnWeights
from .rehearsal import Rehearsal

# The fields of LayerWeights, and the linear layers of fairseq with the same inputs.
LINEARS = {
    "self_qkv": "self_attn.q_proj",
    "self_out": "self_attn.out_proj",
    "cross_query": "encoder_attn.q_proj",
    "cross_out": "encoder_attn.out_proj",
    "feed_forward.fc1": "fc1",
    "feed_forward.fc2": "fc2",
}


@dataclass
class FeedForward:
    """The feed-forward network of a layer, with its residual connection and normalisation."""

    pre_norm: bool
    fc1: PackedLinear
    activation: Callable[[Tensor], Tensor]
    fc1_norm: Optional[PreparedNorm]  # NormFormer's --scale-fc
    fc2: PackedLinear
    residual_scale: Optional[Tensor]  # NormFormer's --scale-resids
    norm: PreparedNorm


@dataclass
class LayerWeights:
    """One decoder layer. The weights include the scaling of queries by ``head_dim ** -0.5``."""

    pre_norm: bool
    self_qkv: PackedLinear  # C -> 3C
    self_out: PackedLinear
    self_attn_norm: Optional[PreparedNorm]  # after the attention, NormFormer's --scale-attn
    self_norm: PreparedNorm
    cross_query: PackedLinear
    cross_out: PackedLinear
    cross_norm: PreparedNorm
    feed_forward: FeedForward


@dataclass
class DecoderWeights:
    """A whole decoder, from token ids to features.

    Attributes:
        rehearsed: the features of random sentences, fp32 ``[B, T, C]``; ``None`` unless the
            precision is int8.
    """

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[PreparedNorm]
    layers: list[LayerWeights]
    cross_key_values: PackedLinear  # encoder C -> layers * 2C: one product for all layers
    final_norm: Optional[PreparedNorm]
    rehearsed: Optional[Tensor] = None

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        decoder: TransformerDecoderBase,
        precision: Precision,
        own: OwnWeights,
        sources: Optional[Tensor] = None,
    ) -> "DecoderWeights":
        """Gather the parameters of a supported decoder, and fuse them where this saves products.

        Args:
            own: keeps or releases the decoder's weights, layer by layer.
            sources: the encoder's states of random sentences, fp32 ``[B, S, C]``; ``None`` for an
                encoder that is not prepared.

        Raises:
            ReleasedWeights: if the weights have been released.
        """
        layers = layers_of(decoder)
        attention = layers[0].self_attn
        rehearsal = Rehearsal(precision, "decoder")
        embed, embed_scale = _embeddings(decoder)
        weights = cls(
            n_heads=attention.num_heads,
            head_dim=attention.head_dim,
            embed=embed,
            embed_scale=embed_scale,
            embed_norm=norm_of(decoder.layernorm_embedding),
            layers=[],
            cross_key_values=_cross_key_values(layers, rehearsal, own, sources),
            final_norm=norm_of(decoder.layer_norm),
        )
        rehearsal.begin(decoder, weights)
        for index, layer in enumerate(layers):
            with own.reading(layer, layer_linears(layer)):
                made = rehearsal.layer(index, layer, _layer_weights, LINEARS)
                weights.layers.append(made)
        weights.rehearsed = rehearsal.end(weights.final_norm)
        return weights


def _embeddings(decoder: TransformerDecoderBase) -> tuple[Tensor, float]:
    """The embeddings ``[V, C]``, projected to the width of the layers, and their scale."""
    embed = in_fp32(decoder.embed_tokens.weight).contiguous()
    projection = decoder.project_in_dim
    if projection is None:
        return embed, decoder.embed_scale
    bias = None if projection.bias is None else in_fp32(projection.bias)
    return F.linear(decoder.embed_scale * embed, in_fp32(projection.weight), bias), 1.0


def layers_of(coder: Any) -> list[Any]:
    """A coder's layers in order. Iterating ``coder.layers`` would skip some under LayerDrop."""
    return [coder.layers[index] for index in range(len(coder.layers))]


def layer_linears(layer: Any) -> list[nn.Linear]:
    """The linear layers of a stock layer other than those of :func:`key_value_linears`."""
    attn = layer.self_attn
    linears = [attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj, layer.fc1, layer.fc2]
    cross = getattr(layer, "encoder_attn", None)
    return linears if cross is None else [*linears, cross.q_proj, cross.out_proj]


def key_value_linears(layer: Any) -> list[nn.Linear]:
    """The linear layers that a decoder layer applies to the encoder's states."""
    cross = getattr(layer, "encoder_attn", None)
    return [] if cross is None else [cross.k_proj, cross.v_proj]


def queries_keys_values(attention: MultiheadAttention, precision: Precision) -> PackedLinear:
    """One layer for all three, ``C -> 3C``, with queries scaled by ``head_dim ** -0.5``."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    return stacked(projections, precision, first_scale=attention.scaling)


def stacked(
    projections: Sequence[nn.Linear], precision: Precision, first_scale: float = 1.0
) -> PackedLinear:
    """Layers with the same input as one layer; the first output is scaled by ``first_scale``."""
    # In fp16 the scaled weights would be rounded again.
    weights = [in_fp32(layer.weight) for layer in projections]
    biases = [in_fp32(layer.bias) for layer in projections]
    weights[0], biases[0] = weights[0] * first_scale, biases[0] * first_scale
    return precision.linear(torch.cat(weights), torch.cat(biases))


def feed_forward(layer: Any, precision: Precision) -> FeedForward:
    """The feed-forward network of a stock encoder or decoder layer."""
    scale = getattr(layer, "w_resid", None)
    return FeedForward(
        pre_norm=layer.normalize_before,
        fc1=precision.linear_of(layer.fc1),
        activation=layer.activation_fn,
        fc1_norm=norm_of(getattr(layer, "ffn_layernorm", None)),
        fc2=precision.linear_of(layer.fc2),
        residual_scale=None if scale is None else in_fp32(scale),
        norm=norm_of(layer.final_layer_norm),
    )


def _cross_key_values(
    layers: Sequence[nn.Module],
    rehearsal: Rehearsal,
    own: OwnWeights,
    sources: Optional[Tensor],
) -> PackedLinear:
    linears = [linear for layer in layers for linear in key_value_linears(layer)]
    sizes = [linear.weight.size(0) for linear in linears]
    # Only one layer's weights are in memory at a time besides the result.
    like = in_fp32(linears[0].bias)
    weight, bias = like.new_empty(sum(sizes), linears[0].in_features), like.new_empty(sum(sizes))
    parts = iter(zip(weight.split(sizes), bias.split(sizes)))
    for layer in layers:
        with own.reading(layer, key_value_linears(layer)):
            for linear in key_value_linears(layer):
                part_weight, part_bias = next(parts)
                part_weight.copy_(linear.weight)
                part_bias.copy_(linear.bias)
    return rehearsal.cross_key_values(weight, bias, layers[0].encoder_attn, sources)


def _layer_weights(layer: TransformerDecoderLayerBase, precision: Precision) -> LayerWeights:
    cross = layer.encoder_attn
    return LayerWeights(
        pre_norm=layer.normalize_before,
        self_qkv=queries_keys_values(layer.self_attn, precision),
        self_out=_self_attention_output(layer, precision),
        self_attn_norm=norm_of(layer.attn_ln),
        self_norm=norm_of(layer.self_attn_layer_norm),
        cross_query=stacked([cross.q_proj], precision, first_scale=cross.scaling),
        cross_out=precision.linear_of(cross.out_proj),
        cross_norm=norm_of(layer.encoder_attn_layer_norm),
        feed_forward=feed_forward(layer, precision),
    )


def _self_attention_output(
    layer: TransformerDecoderLayerBase, precision: Precision
) -> PackedLinear:
    attention: MultiheadAttention = layer.self_attn
    projection = attention.out_proj
    if layer.c_attn is None:
        return precision.linear_of(projection)
    # NormFormer's --scale-heads scales the projected output, with one factor per head_dim channels.
    scale = in_fp32(layer.c_attn).repeat_interleave(attention.head_dim)
    weight, bias = in_fp32(projection.weight), in_fp32(projection.bias)
    return precision.linear(weight * scale[:, None], bias * scale)
