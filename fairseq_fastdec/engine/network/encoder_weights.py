"""An encoder's parameters in the shapes that the engine multiplies with."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedLinear
from ..products.precision import Precision, PreparedNorm, in_fp32, norm_of
from .own_weights import OwnWeights
from .positions import Positions
from .rehearsal import Rehearsal, attend, random_tokens
from .weights import FeedForward, feed_forward, layer_linears, layers_of, queries_keys_values


@dataclass
class EncoderLayerWeights:
    """One encoder layer."""

    qkv: PackedLinear  # C -> 3C, the queries scaled
    out: PackedLinear
    norm: PreparedNorm
    feed_forward: FeedForward

    def __call__(self, x: Tensor, n_heads: int) -> Tensor:
        """``[B, S, C]`` to the same."""
        residual = x
        pre_norm = self.feed_forward.pre_norm
        if pre_norm:
            x = self.norm(x)
        qkv = self.qkv(x).unflatten(-1, (3, n_heads, -1))
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        x = residual + self.out(attend(queries, keys, values))
        return self.feed_forward(x if pre_norm else self.norm(x))


@dataclass
class EncoderWeights:
    """A whole stock transformer encoder, but for its positions.

    Attributes:
        rehearsed: states of random sentences, fp32 ``[B, S, C]``; only in 8-bit integers.
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
            own: keeps the encoder's weights or releases them, layer by layer.

        Raises:
            ReleasedWeights: if they have been released.
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
        rehearsal = Rehearsal.of(precision, "encoder")
        if rehearsal is not None:
            rehearsal.states = weights._embed_random(encoder)
        for layer in layers_of(encoder):
            weights.layers.append(weights._layer(layer, precision, own, rehearsal))
        if rehearsal is not None:
            x = rehearsal.states
            weights.rehearsed = x if weights.final_norm is None else weights.final_norm(x)
            rehearsal.tell()
        return weights

    def _embed_random(self, encoder: TransformerEncoderBase) -> Tensor:
        positions = Positions(encoder, like=self.embed).table
        n_positions = None if positions is None else positions.size(0)
        tokens = random_tokens(self.embed.size(0), n_positions)
        x = self.embed_scale * F.embedding(tokens, self.embed)
        if positions is not None:
            x = x + positions[: tokens.size(1)]
        return x if self.embed_norm is None else self.embed_norm(x)

    def _layer(
        self,
        layer: Any,
        precision: Precision,
        own: OwnWeights,
        rehearsal: Optional[Rehearsal],
    ) -> EncoderLayerWeights:
        with own.reading(layer, layer_linears(layer)):
            if rehearsal is None:
                return _layer_weights(layer, precision)
            made = _layer_weights(layer, rehearsal.precision)
            rehearsal.states = made(rehearsal.states, self.n_heads)
            return rehearsal.settle(made, f"layers.{len(self.layers)}")


def _layer_weights(layer: Any, precision: Precision) -> EncoderLayerWeights:
    return EncoderLayerWeights(
        qkv=queries_keys_values(layer.self_attn, precision),
        out=precision.linear_of(layer.self_attn.out_proj),
        norm=norm_of(layer.self_attn_layer_norm),
        feed_forward=feed_forward(layer, precision),
    )
