"""An encoder's parameters in the shapes that the engine multiplies with."""

from dataclasses import dataclass
from typing import List, Optional

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from ..products.linear import LinearLayer
from ..products.precision import Precision, PreparedNorm
from .own_weights import OwnWeights
from .weights import FeedForward, feed_forward, layer_linears, layers_of, queries_keys_values


@dataclass
class EncoderLayerWeights:
    """One encoder layer."""

    qkv: LinearLayer  # C -> 3C, the queries scaled
    out: LinearLayer
    norm: PreparedNorm
    feed_forward: FeedForward


@dataclass
class EncoderWeights:
    """A whole stock transformer encoder, but for its positions."""

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[PreparedNorm]
    layers: List[EncoderLayerWeights]
    final_norm: Optional[PreparedNorm]

    @classmethod
    @torch.no_grad()
    def of(
        cls, encoder: TransformerEncoderBase, precision: Precision, own: OwnWeights
    ) -> "EncoderWeights":
        """Gather and fuse the parameters.

        Args:
            own: keeps the encoder's weights or releases them, layer by layer.

        Raises:
            ReleasedWeights: if they have been released.
        """
        attention = encoder.layers[0].self_attn
        return cls(
            n_heads=attention.num_heads,
            head_dim=attention.head_dim,
            embed=precision.tensor(encoder.embed_tokens.weight),
            embed_scale=encoder.embed_scale,
            embed_norm=precision.norm_of(encoder.layernorm_embedding),
            layers=[_layer_weights(layer, precision, own) for layer in layers_of(encoder)],
            final_norm=precision.norm_of(encoder.layer_norm),
        )


def _layer_weights(layer: nn.Module, precision: Precision, own: OwnWeights) -> EncoderLayerWeights:
    with own.reading(layer, layer_linears(layer)):
        return EncoderLayerWeights(
            qkv=queries_keys_values(layer.self_attn, precision),
            out=precision.linear_of(layer.self_attn.out_proj),
            norm=precision.norm_of(layer.self_attn_layer_norm),
            feed_forward=feed_forward(layer, precision),
        )
