"""Random sentences go through a decoder's layers while their weights are prepared."""

from typing import Optional

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from ..products.linear import LinearLayer
from ..products.precision import Precision
from .attention import attend
from .forward import ForwardPass
from .own_weights import OwnWeights
from .rehearsal import SENTENCES, TOKENS, Rehearsal, random_tokens
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

    def try_key_values(self, made: LinearLayer) -> LinearLayer:
        self._key_values = made(self._sources)
        return self._rehearsal.settle(made, "cross_key_values")

    def begin(self, weights: DecoderWeights) -> None:
        self._forward = ForwardPass(self._decoder, weights)
        positions = self._forward.positions
        n_positions = None if positions is None else positions.size(0)
        tokens = random_tokens(weights.embed.size(0), n_positions)
        self._rehearsal.states = self._forward.embed(tokens, 0)
        weights.project_in = self._rehearsal.settle(weights.project_in, "project_in")
        n_layers = len(self._decoder.layers)
        shape = (n_layers, 2, weights.n_heads, weights.head_dim)
        self._of_rows = _OfRows(tokens.size(1))
        self._of_sources = _OfSources(self._key_values.unflatten(-1, shape))

    def try_layer(self, index: int, made: LayerWeights) -> LayerWeights:
        x = self._forward.self_attention(index, made, self._rehearsal.states, self._of_rows)
        x = self._forward.cross_attention(index, made, x, self._of_sources)
        self._rehearsal.states = made.feed_forward(x)
        return self._rehearsal.settle(made, f"layers.{index}")

    def end(self, weights: DecoderWeights) -> Tensor:
        x = self._rehearsal.states
        if weights.final_norm is not None:
            x = weights.final_norm(x)
        if weights.project_out is not None:
            x = weights.project_out(x)
            weights.project_out = self._rehearsal.settle(weights.project_out, "project_out")
        self._rehearsal.tell()
        return x


class _OfRows:
    """The sentences attend to themselves, causally; see :class:`~.forward.RowKeys`."""

    def __init__(self, n_tokens: int) -> None:
        self._mask = torch.full((1, 1, n_tokens, n_tokens), -torch.inf).triu(1)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        return attend(queries, keys, values, self._mask)


class _OfSources:
    """The sentences attend to their sources; see :class:`~.forward.SourceKeys`."""

    def __init__(self, key_values: Tensor) -> None:
        """
        Args:
            key_values: ``[B, S, layers, 2, H, D]``.
        """
        self._key_values = key_values.permute(2, 3, 0, 4, 1, 5)

    def attend(self, layer: int, queries: Tensor) -> Tensor:
        keys, values = self._key_values[layer]
        return attend(queries.transpose(1, 2), keys, values, None)
