"""The parameters of encoders and decoders in the layout of the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .own_weights import OwnWeights
from .packed import PackedLinear
from .precision import Precision, PreparedNorm, in_fp32, norm_of
from .rehearsal import Rehearsal
from .stock_decoders import is_of_decoder, is_recurrent, layers_of


@dataclass
class LayerWeights:
    """One layer of an encoder or a decoder.

    Attributes:
        linears, norms: the layers, by their names in the engine; queries are scaled by the weights.
        residual_scale: NormFormer's --scale-resids, ``[C]``.
    """

    linears: dict[str, PackedLinear]
    norms: dict[str, Optional[PreparedNorm]]
    residual_scale: Optional[Tensor]


@dataclass
class NetworkWeights:
    """A stock encoder or a supported decoder, from token ids to states, without its positions.

    Attributes:
        cross_key_values: of a decoder that attends to sources, encoder C -> layers * 2C: one
            product for all layers.
        rehearsed: the states of random sentences, fp32 ``[B, T, C]``; ``None`` unless the precision
            is int8.
    """

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[PreparedNorm]
    layers: list[LayerWeights]
    final_norm: Optional[PreparedNorm]
    cross_key_values: Optional[PackedLinear] = None
    rehearsed: Optional[Tensor] = None

    @classmethod
    @torch.no_grad()
    def of(
        cls, coder: Any, precision: Precision, own: OwnWeights, sources: Optional[Tensor] = None
    ) -> "NetworkWeights":
        """Gather the parameters of an encoder or decoder, and fuse them where this saves products.

        Args:
            own: keeps or releases the weights, layer by layer.
            sources: for a decoder, the encoder's states of random sentences, fp32 ``[B, S, C]``;
                ``None`` for an encoder that is not prepared, and for a language model.

        Raises:
            ReleasedWeights: if the weights have been released.
        """
        layers = layers_of(coder)
        attends = bool(key_value_linears(layers[0]))
        attention = layers[0].encoder_attn if attends else layers[0].self_attn
        rehearsal = Rehearsal(precision, "decoder" if is_of_decoder(layers[0]) else "encoder")
        embed, embed_scale = _embeddings(coder)
        weights = cls(
            n_heads=attention.num_heads,
            head_dim=attention.head_dim,
            embed=embed,
            embed_scale=embed_scale,
            embed_norm=norm_of(coder.layernorm_embedding),
            layers=[],
            final_norm=norm_of(coder.layer_norm),
        )
        if attends:
            weights.cross_key_values = _cross_key_values(layers, rehearsal, own, sources)
        rehearsal.begin(coder, weights)
        for index, layer in enumerate(layers):
            with own.reading(layer, layer_linears(layer)):
                weights.layers.append(rehearsal.layer(index, layer, _layer_weights))
        weights.rehearsed = rehearsal.end(weights.final_norm)
        return weights


def _embeddings(coder: Any) -> tuple[Tensor, float]:
    """The embeddings ``[V, C]``, projected to the width of the layers, and their scale."""
    embed = in_fp32(coder.embed_tokens.weight).contiguous()
    projection = getattr(coder, "project_in_dim", None)
    if projection is None:
        return embed, coder.embed_scale
    bias = None if projection.bias is None else in_fp32(projection.bias)
    return F.linear(coder.embed_scale * embed, in_fp32(projection.weight), bias), 1.0


def layer_linears(layer: Any) -> list[nn.Linear]:
    """The linear layers of a stock layer other than those of :func:`key_value_linears`."""
    attn = layer.self_attn
    if is_recurrent(layer):
        linears = [attn.input_proj, attn.forget_proj, layer.fc1, layer.fc2]
    else:
        linears = [attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj, layer.fc1, layer.fc2]
    cross = getattr(layer, "encoder_attn", None)
    return linears if cross is None else [*linears, cross.q_proj, cross.out_proj]


def key_value_linears(layer: Any) -> list[nn.Linear]:
    """The linear layers that a decoder layer applies to the encoder's states."""
    cross = getattr(layer, "encoder_attn", None)
    return [] if cross is None else [cross.k_proj, cross.v_proj]


def stacked(
    projections: Sequence[nn.Linear], precision: Precision, first_scale: float = 1.0
) -> PackedLinear:
    """Layers with the same input as one layer; the first output is scaled by ``first_scale``."""
    # In fp16 the scaled weights would be rounded again.
    weights = [in_fp32(layer.weight) for layer in projections]
    biases = [
        weight.new_zeros(len(weight)) if layer.bias is None else in_fp32(layer.bias)
        for layer, weight in zip(projections, weights)
    ]
    weights[0], biases[0] = weights[0] * first_scale, biases[0] * first_scale
    return precision.linear(torch.cat(weights), torch.cat(biases))


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


def _layer_weights(layer: Any, precision: Precision) -> LayerWeights:
    attention, cross = layer.self_attn, getattr(layer, "encoder_attn", None)
    if is_recurrent(layer):
        linears = {"recurrence": stacked([attention.input_proj, attention.forget_proj], precision)}
    else:
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        linears = {
            "self_qkv": stacked(projections, precision, first_scale=attention.scaling),  # C -> 3C
            "self_out": _self_attention_output(layer, precision),
        }
    norms = {"self_norm": norm_of(layer.self_attn_layer_norm)}
    if cross is not None:
        linears["cross_query"] = stacked([cross.q_proj], precision, first_scale=cross.scaling)
        linears["cross_out"] = precision.linear_of(cross.out_proj)
        norms["cross_norm"] = norm_of(layer.encoder_attn_layer_norm)
    norms["self_out_norm"] = norm_of(getattr(layer, "attn_ln", None))  # NormFormer's --scale-attn
    linears["fc1"], linears["fc2"] = map(precision.linear_of, (layer.fc1, layer.fc2))
    norms["final_norm"] = norm_of(layer.final_layer_norm)
    norms["fc1_norm"] = norm_of(getattr(layer, "ffn_layernorm", None))  # NormFormer's --scale-fc
    scale = getattr(layer, "w_resid", None)
    return LayerWeights(linears, norms, None if scale is None else in_fp32(scale))


def _self_attention_output(layer: Any, precision: Precision) -> PackedLinear:
    projection, scales = layer.self_attn.out_proj, getattr(layer, "c_attn", None)
    if scales is None:
        return precision.linear_of(projection)
    # NormFormer's --scale-heads scales the projected output, with one factor per head_dim channels.
    scale = in_fp32(scales).repeat_interleave(layer.self_attn.head_dim)
    weight, bias = in_fp32(projection.weight), in_fp32(projection.bias)
    return precision.linear(weight * scale[:, None], bias * scale)
