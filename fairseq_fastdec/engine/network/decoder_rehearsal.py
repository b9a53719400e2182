"""Random sentences go through a decoder's layers while their weights are prepared."""

from typing import Optional

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedLinear
from ..products.precision import Precision
from .own_weights import OwnWeights
from .positions import Positions
from .rehearsal import SENTENCES, TOKENS, Rehearsal, attend, random_tokens
from .weights import DecoderWeights, LayerWeights


def rehearsed_decoder(
    decoder: TransformerDecoderBase,
    precision: Precision,
    own: OwnWeights,
    sources: Optional[Tensor],
) -> DecoderWeights:
    """A decoder's weights, in 8-bit integers where these can be trusted.

    Args:
        sources: the encoder's states for random sentences, fp32 ``[B, S, C]``; ``None`` for an
            encoder that is not prepared.
    """
    rehearsal = Rehearsal.of(precision, "decoder")
    trials = None if rehearsal is None else DecoderRehearsal(decoder, rehearsal, sources)
    return DecoderWeights.of(decoder, precision, own, trials)


class DecoderRehearsal:
    """Tries a decoder's layers; see :class:`~.weights.LayerTrials`."""

    def __init__(
        self, decoder: TransformerDecoderBase, rehearsal: Rehearsal, sources: Optional[Tensor]
    ) -> None:
        """
        Args:
            sources: as for :func:`rehearsed_decoder`.
        """
        self.precision = rehearsal.precision
        self._decoder = decoder
        self._rehearsal = rehearsal
        if sources is None:
            generator = torch.Generator().manual_seed(1)
            n_inputs = decoder.layers[0].encoder_attn.kdim
            sources = torch.randn(SENTENCES, TOKENS, n_inputs, generator=generator)
        self._sources = sources

    def try_key_values(self, made: PackedLinear) -> PackedLinear:
        self._key_values = made(self._sources)
        return self._rehearsal.settle(made, "cross_key_values")

    def begin(self, weights: DecoderWeights) -> None:
        positions = Positions(self._decoder, like=weights.embed).table
        n_positions = None if positions is None else positions.size(0)
        tokens = random_tokens(weights.embed.size(0), n_positions)
        x = weights.embed_scale * F.embedding(tokens, weights.embed)
        if positions is not None:
            x = x + positions[: tokens.size(1)]
        self._rehearsal.states = x if weights.embed_norm is None else weights.embed_norm(x)
        shape = (len(self._decoder.layers), 2, weights.n_heads, weights.head_dim)
        # [layers, 2, B, H, S, D]
        self._of_sources = self._key_values.unflatten(-1, shape).permute(2, 3, 0, 4, 1, 5)

    def try_layer(self, index: int, made: LayerWeights) -> LayerWeights:
        x = self._self_attention(made, self._rehearsal.states)
        x = self._cross_attention(made, x, *self._of_sources[index])
        self._rehearsal.states = made.feed_forward(x)
        return self._rehearsal.settle(made, f"layers.{index}")

    def end(self, weights: DecoderWeights) -> Tensor:
        self._rehearsal.tell()
        x = self._rehearsal.states
        return x if weights.final_norm is None else weights.final_norm(x)

    def _self_attention(self, layer: LayerWeights, x: Tensor) -> Tensor:
        residual = x
        if layer.pre_norm:
            x = layer.self_norm(x)
        qkv = layer.self_qkv(x).unflatten(-1, (3, self._of_sources.size(3), -1))
        x = layer.self_out(attend(*qkv.permute(2, 0, 3, 1, 4), is_causal=True))
        if layer.self_attn_norm is not None:
            x = layer.self_attn_norm(x)
        x = residual + x
        return x if layer.pre_norm else layer.self_norm(x)

    def _cross_attention(
        self, layer: LayerWeights, x: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        residual = x
        if layer.pre_norm:
            x = layer.cross_norm(x)
        queries = layer.cross_query(x).unflatten(-1, (keys.size(1), -1)).transpose(1, 2)
        x = residual + layer.cross_out(attend(queries, keys, values))
        return x if layer.pre_norm else layer.cross_norm(x)
