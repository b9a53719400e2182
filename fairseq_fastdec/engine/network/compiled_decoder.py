"""A decoder's steps in one call of compiled code, on CPUs.

Torch spends most of a small model's step on starting some hundred operations.
"""

from dataclasses import replace
from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..kernels import structures, transformer
from ..kernels.transformer import Transformer
from .cache import KeyValueCache
from .compiled_network import compiled_layer, compiled_transformer
from .weights import DecoderWeights, LayerWeights

# The steps of a batch are seldom of more tokens.
TOKENS = 64


class CompiledDecoder:
    """The step of one decoder, of any number of tokens.

    A token is computed alike in all steps. In 8-bit integers this is necessary: where torch rounds
    an attention's sums otherwise, rounding to 8 bits makes 1 part in 127 of it.

    Attributes:
        takes_addresses: whether :meth:`step_at` can be called.
        network: the layers, embeddings and norms.
    """

    takes_addresses = True

    def __init__(self, network: Transformer) -> None:
        self.network = network

    @classmethod
    def of(cls, weights: DecoderWeights, tokens_per_step: int) -> Optional["CompiledDecoder"]:
        """The step, or ``None`` if nothing was compiled or not for such a model.

        Args:
            tokens_per_step: so many tokens of a step see each other.
        """
        if weights.project_in is not None or weights.project_out is not None:
            return ProjectedDecoder.of(weights, tokens_per_step)
        network = _network_of(weights, tokens_per_step)
        return None if network is None else cls(network)

    def bind(
        self,
        rows: Tuple[KeyValueCache, int],
        past: Tensor,
        sources: KeyValueCache,
        row_source: Tensor,
        source_lengths: Tensor,
        positions: Optional[Tensor],
    ) -> None:
        """Say which rows the next steps are of; other arguments as of :meth:`.Transformer.bind`.

        Args:
            rows: the rows' keys and values, in fp32 or bf16, and the slot of the first row.
            sources: the sources' keys and values, in fp32 or bf16.
        """
        cache, first_slot = rows
        self.network.bind(
            (cache_structure(cache), first_slot),
            past,
            positions,
            row_source,
            source_lengths,
            cache_structure(sources),
        )

    def step(self, tokens: Tensor, parents: Optional[Tensor] = None) -> Tensor:
        """See :meth:`.Transformer.step`."""
        return self.network.step(tokens, parents)

    def step_at(
        self, tokens: int, n_new: int, features: int, parents: Optional[int] = None
    ) -> None:
        """See :meth:`.Transformer.step_at`."""
        self.network.step_at(tokens, n_new, features, parents)


class ProjectedDecoder(CompiledDecoder):
    """A decoder whose embeddings or features are of another width than its layers.

    The tokens of a step are embedded and projected before the call. They make up the table that the
    compiled code reads, in which each token of the step is a type of its own.
    """

    takes_addresses = False

    def __init__(self, network: Transformer, weights: DecoderWeights, tokens_per_step: int) -> None:
        super().__init__(network)
        self._weights = weights
        self._tokens_per_step = tokens_per_step
        self._places: Tuple[Any, ...] = ()

    @classmethod
    def of(cls, weights: DecoderWeights, tokens_per_step: int) -> Optional["ProjectedDecoder"]:
        """The step, or ``None`` if nothing was compiled or not for such a model."""
        network = _network_of(_with_table(weights, TOKENS), tokens_per_step)
        return None if network is None else cls(network, weights, tokens_per_step)

    def bind(self, *places: Any) -> None:
        """See :meth:`CompiledDecoder.bind`."""
        self._places = places
        super().bind(*places)

    @torch.no_grad()
    def step(self, tokens: Tensor, parents: Optional[Tensor] = None) -> Tensor:
        """See :meth:`.Transformer.step`."""
        if self._weights.project_in is not None:
            tokens = self._enter(tokens)
        features = super().step(tokens, parents)
        project_out = self._weights.project_out
        return features if project_out is None else project_out(features)

    def _enter(self, tokens: Tensor) -> Tensor:
        """Write the tokens' embeddings to the network's table; returns their types there."""
        n_tokens, weights = tokens.numel(), self._weights
        if n_tokens > self.network.embed.size(0):
            self.network = _network_of(_with_table(weights, 2 * n_tokens), self._tokens_per_step)
            super().bind(*self._places)
        embedded = weights.embed_scale * F.embedding(tokens, weights.embed)
        self.network.embed[:n_tokens] = weights.project_in(embedded).flatten(0, 1)
        return torch.arange(n_tokens).view(tokens.shape)


def _network_of(weights: DecoderWeights, tokens_per_step: int) -> Optional[Transformer]:
    return compiled_transformer(weights, list(map(_layer, weights.layers)), tokens_per_step)


def _with_table(weights: DecoderWeights, n_tokens: int) -> DecoderWeights:
    """The weights of layers that are given the embeddings of so many tokens at most."""
    if weights.project_in is None:
        return weights
    dim = weights.n_heads * weights.head_dim
    table = weights.layers[0].self_norm.weight.new_zeros(n_tokens, dim)
    return replace(weights, embed=table, embed_scale=1.0)


def cache_structure(cache: KeyValueCache) -> structures.Cache:
    """A cache as compiled code takes it, as long as its place stays the same."""
    address, shape = cache.place
    return transformer.cache_at(address, shape[2:], cache.dtype)


def _layer(layer: LayerWeights) -> transformer.LayerParameters:
    linears = dict(
        self_qkv=layer.self_qkv,
        self_out=layer.self_out,
        cross_query=layer.cross_query,
        cross_out=layer.cross_out,
    )
    norms = dict(
        self_norm=layer.self_norm,
        cross_norm=layer.cross_norm,
        self_out_norm=layer.self_attn_norm,
    )
    return compiled_layer(linears, norms, layer.feed_forward)
