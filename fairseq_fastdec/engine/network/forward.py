"""The forward pass of a step: the decoder's layers over keys and values that outlive it."""

from typing import NamedTuple, Optional, Protocol, Union

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor
from torch.nn import functional as F

from .attention import attend
from .cache import KeyValueCache
from .positions import Positions
from .weights import DecoderWeights, LayerWeights


class Grid(Protocol):
    """Rows laid out as ``[sources, rows of a source]``."""

    def spread(self, queries: Tensor) -> Tensor:
        """``[R, T, H, D]`` to ``[S, G * T, H, D]``."""

    def collect(self, context: Tensor, n_new: int) -> Tensor:
        """``[S, G * T, C]`` back to ``[R, T, C]``."""


class RowKeys(NamedTuple):
    """The keys and values of the rows, to which the tokens of a step attend.

    Attributes:
        cache: of all rows.
        slots: where the rows of the step lie in it.
        places: where those of the new tokens go, int64 ``[R, T]``; the first place alone, where it
            is the same for all rows.
        n_keys: L, how many positions are attended to.
        mask: ``[R or 1, 1, T, L]``, or ``None`` where all may be.
        depths: of the tokens of trees, int64 ``[R, T]``.
    """

    cache: KeyValueCache
    slots: slice
    places: Union[int, Tensor]
    n_keys: int
    mask: Optional[Tensor]
    depths: Optional[Tensor] = None

    @property
    def positions(self) -> Union[int, Tensor]:
        """The positions of the new tokens; those of a tree are not where their keys lie."""
        if self.depths is None:
            return self.places
        first = self.places if isinstance(self.places, int) else self.places[:, :1]
        return first + self.depths

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Remember the new keys and values and attend: ``[R, T, 3, H, D]`` to ``[R, T, C]``."""
        if isinstance(self.places, int):
            self.cache.write(layer, self.slots, self.places, qkv[:, :, 1:])
        else:
            self.cache.write_ragged(layer, self.slots, self.places, qkv[:, :, 1:])
        keys, values = self.cache.read(layer, self.slots, self.n_keys)
        return attend(qkv[:, :, 0].transpose(1, 2), keys, values, self.mask)


class SourceKeys(NamedTuple):
    """The keys and values of the sources, to which the tokens of a step attend.

    Attributes:
        cache: of all sources.
        slots: where the S sources of the step lie in it.
        n_keys: L, how many positions are attended to.
        mask: ``[S, 1, 1, L]``, or ``None`` where all may be.
        grid: which row belongs to which source.
    """

    cache: KeyValueCache
    slots: slice
    n_keys: int
    mask: Optional[Tensor]
    grid: Grid

    def attend(self, layer: int, queries: Tensor) -> Tensor:
        """``[R, T, H, D]`` to ``[R, T, C]``."""
        keys, values = self.cache.read(layer, self.slots, self.n_keys)
        grid_queries = self.grid.spread(queries).transpose(1, 2)
        context = attend(grid_queries, keys, values, self.mask)
        return self.grid.collect(context, queries.size(1))


class ForwardPass:
    """From tokens to features."""

    def __init__(self, decoder: TransformerDecoderBase, weights: DecoderWeights) -> None:
        self._weights = weights
        self.table = Positions(decoder, like=weights.embed)

    @property
    def positions(self) -> Optional[Tensor]:
        """The embeddings of the positions, ``[N, C]``; ``None`` for models that have none."""
        return self.table.table

    def reach(self, n_positions: int) -> bool:
        """Prepare so many positions, if there are more; returns whether they are new tensors."""
        return self.table.reach(n_positions)

    def __call__(self, tokens: Tensor, rows: RowKeys, sources: SourceKeys) -> Tensor:
        """
        Args:
            tokens: int64 ``[R, T]``.

        Returns:
            features ``[R, T, C]``
        """
        x = self.embed(tokens, rows.positions)
        for index, layer in enumerate(self._weights.layers):
            x = self.self_attention(index, layer, x, rows)
            x = self.cross_attention(index, layer, x, sources)
            x = layer.feed_forward(x)
        if self._weights.final_norm is not None:
            x = self._weights.final_norm(x)
        if self._weights.project_out is not None:
            x = self._weights.project_out(x)
        return x

    def embed(self, tokens: Tensor, positions: Union[int, Tensor]) -> Tensor:
        """Tokens int64 ``[R, T]``, positions as in :class:`RowKeys`, to ``[R, T, C]``."""
        weights = self._weights
        x = weights.embed_scale * F.embedding(tokens, weights.embed)
        if weights.project_in is not None:
            x = weights.project_in(x)
        if self.positions is not None:
            x = x + self._position_embeddings(positions, tokens.size(1))
        if weights.embed_norm is not None:
            x = weights.embed_norm(x)
        return x

    def _position_embeddings(self, positions: Union[int, Tensor], n_new: int) -> Tensor:
        """Positions beyond the last are the last."""
        table = self.positions
        if not isinstance(positions, int):
            return table[positions.clamp(max=table.size(0) - 1)]
        if positions + n_new <= table.size(0):
            return table[positions : positions + n_new]
        new = torch.arange(positions, positions + n_new, device=table.device)
        return table[new.clamp(max=table.size(0) - 1)]

    def self_attention(self, index: int, layer: LayerWeights, x: Tensor, rows: RowKeys) -> Tensor:
        """``[R, T, C]`` to the same, with residual connection and normalisation."""
        residual = x
        if layer.pre_norm:
            x = layer.self_norm(x)
        shape = (3, self._weights.n_heads, self._weights.head_dim)
        x = layer.self_out(rows.attend(index, layer.self_qkv(x).view(*x.shape[:2], *shape)))
        if layer.self_attn_norm is not None:
            x = layer.self_attn_norm(x)
        x = residual + x
        return x if layer.pre_norm else layer.self_norm(x)

    def cross_attention(
        self, index: int, layer: LayerWeights, x: Tensor, sources: SourceKeys
    ) -> Tensor:
        """``[R, T, C]`` to the same, with residual connection and normalisation."""
        residual = x
        if layer.pre_norm:
            x = layer.cross_norm(x)
        shape = (self._weights.n_heads, self._weights.head_dim)
        queries = layer.cross_query(x).view(*x.shape[:2], *shape)
        x = residual + layer.cross_out(sources.attend(index, queries))
        return x if layer.pre_norm else layer.cross_norm(x)
