"""An encoder's parameters in the layout of the engine."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor

from ..kernels.packed import PackedLinear
from ..products.precision import Precision, PreparedNorm, in_fp32, norm_of
from .own_weights import OwnWeights
from .rehearsal import Rehearsal
from .weights import FeedForward, feed_forward, layer_linears, layers_of, queries_keys_values

# The fields of EncoderLayerWeights, and the linear layers of fairseq with the same inputs.
LINEARS = {
    "qkv": "self_attn.q_proj",
    "out": "self_attn.out_proj",
    "feed_forward.fc1": "fc1",
    "feed_forward.fc2": "fc2",
}


@dataclass
class EncoderLayerWeights:
    """One encoder layer."""

    qkv: PackedLinear  # C -> 3C, the queries scaled
    out: PackedLinear
    norm: PreparedNorm
    feed_forward: FeedForward


@dataclass
class EncoderWeights:
    """A stock transformer encoder without its positions.

    Attributes:
        rehearsed: the states of random sentences, fp32 ``[B, S, C]``; ``None`` unless the precision
            is int8.
    """

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[PreparedNorm]
    layers: list[EncoderLayerWeights]
    final_norm: Optional[PreparedNorm]
    rehearsed: Optional[Tensor] = None

    @classmethod
    @torch.no_grad()
    def of(
        cls, encoder: TransformerEncoderBase, precision: Precision, own: OwnWeights
    ) -> "EncoderWeights":
        """Gather and fuse the parameters.

        Args:
            own: keeps or releases the encoder's weights, layer by layer.

        Raises:
            ReleasedWeights: if the weights have been released.
        """
        attention = encoder.layers[0].self_attn
        weights = cls(
            n_heads=attention.num_heads,
            head_dim=attention.head_dim,
            embed=in_fp32(encoder.embed_tokens.weight).contiguous(),
            embed_scale=encoder.embed_scale,
            embed_norm=norm_of(encoder.layernorm_embedding),
            layers=[],
            final_norm=norm_of(encoder.layer_norm),
        )
        rehearsal = Rehearsal(precision, "encoder")
        rehearsal.begin(encoder, weights)
        for index, layer in enumerate(layers_of(encoder)):
            with own.reading(layer, layer_linears(layer)):
                made = rehearsal.layer(index, layer, _layer_weights, LINEARS)
                weights.layers.append(made)
        weights.rehearsed = rehearsal.end(weights.final_norm)
        return weights


def _layer_weights(layer: Any, precision: Precision) -> EncoderLayerWeights:
    return EncoderLayerWeights(
        qkv=queries_keys_values(layer.self_attn, precision),
        out=precision.linear_of(layer.self_attn.out_proj),
        norm=norm_of(layer.self_attn_layer_norm),
        feed_forward=feed_forward(layer, precision),
    )
