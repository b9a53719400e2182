"""An encoder's parameters in the shapes that the engine multiplies with."""

from dataclasses import dataclass
from typing import List, Optional

from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn
from torch.nn import functional as F

from ..products.linear import LinearLayer
from ..products.precision import Precision, PreparedNorm
from .attention import attend
from .gradients import without_gradients
from .own_weights import OwnWeights
from .positions import Positions
from .rehearsal import Rehearsal, random_tokens
from .weights import FeedForward, feed_forward, layer_linears, layers_of, queries_keys_values


@dataclass
class EncoderLayerWeights:
    """One encoder layer."""

    qkv: LinearLayer  # C -> 3C, the queries scaled
    out: LinearLayer
    norm: PreparedNorm
    feed_forward: FeedForward

    def __call__(self, x: Tensor, n_heads: int, mask: Optional[Tensor]) -> Tensor:
        """``[B, S, C]`` to the same.

        Args:
            mask: as for :func:`~.attention.attend`.
        """
        residual = x
        pre_norm = self.feed_forward.pre_norm
        if pre_norm:
            x = self.norm(x)
        qkv = self.qkv(x).unflatten(-1, (3, n_heads, -1))
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        x = residual + self.out(attend(queries, keys, values, mask))
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
    layers: List[EncoderLayerWeights]
    final_norm: Optional[PreparedNorm]
    rehearsed: Optional[Tensor] = None

    @classmethod
    @without_gradients
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
            embed=precision.tensor(encoder.embed_tokens.weight),
            embed_scale=encoder.embed_scale,
            embed_norm=precision.norm_of(encoder.layernorm_embedding),
            layers=[],
            final_norm=precision.norm_of(encoder.layer_norm),
        )
        rehearsal = Rehearsal.of(precision, "encoder")
        if rehearsal is not None:
            rehearsal.states = weights._embed_random(encoder)
        for layer in layers_of(encoder):
            weights.layers.append(weights._layer(layer, precision, own, rehearsal))
        if rehearsal is not None:
            weights.rehearsed = weights.normalized(rehearsal.states)
            rehearsal.tell()
        return weights

    def embedded(self, tokens: Tensor, positions: Optional[Tensor]) -> Tensor:
        """Tokens int64 ``[B, S]`` to the first layer's input ``[B, S, C]``.

        Args:
            positions: ``[N, C]``; ``None`` for models that have none.
        """
        x = self.embed_scale * F.embedding(tokens, self.embed)
        if positions is not None:
            x = x + positions[: tokens.size(1)]
        return x if self.embed_norm is None else self.embed_norm(x)

    def normalized(self, x: Tensor) -> Tensor:
        """The last layer's output ``[B, S, C]`` to the encoder's."""
        return x if self.final_norm is None else self.final_norm(x)

    def _embed_random(self, encoder: TransformerEncoderBase) -> Tensor:
        positions = Positions(encoder, like=self.embed).table
        n_positions = None if positions is None else positions.size(0)
        return self.embedded(random_tokens(self.embed.size(0), n_positions), positions)

    def _layer(
        self,
        layer: nn.Module,
        precision: Precision,
        own: OwnWeights,
        rehearsal: Optional[Rehearsal],
    ) -> EncoderLayerWeights:
        with own.reading(layer, layer_linears(layer)):
            if rehearsal is None:
                return _layer_weights(layer, precision)
            made = _layer_weights(layer, rehearsal.precision)
            rehearsal.states = made(rehearsal.states, self.n_heads, None)
            return rehearsal.settle(made, f"layers.{len(self.layers)}")


def _layer_weights(layer: nn.Module, precision: Precision) -> EncoderLayerWeights:
    return EncoderLayerWeights(
        qkv=queries_keys_values(layer.self_attn, precision),
        out=precision.linear_of(layer.self_attn.out_proj),
        norm=precision.norm_of(layer.self_attn_layer_norm),
        feed_forward=feed_forward(layer, precision),
    )
