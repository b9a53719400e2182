"""A decoder's steps in one call of compiled code, on CPUs.

Torch spends most of a small model's step on starting some hundred operations.
"""

from typing import Optional, Tuple

from torch import Tensor

from ..kernels import structures, transformer
from ..kernels.transformer import Transformer
from .cache import KeyValueCache
from .compiled_network import compiled_layer, compiled_transformer
from .weights import DecoderWeights, LayerWeights


class CompiledDecoder:
    """The step of one decoder, of any number of tokens.

    A token is computed alike in all steps. In 8-bit integers this is necessary: where torch rounds
    an attention's sums otherwise, rounding to 8 bits makes 1 part in 127 of it.
    """

    def __init__(self, network: Transformer) -> None:
        self._network = network

    @classmethod
    def of(cls, weights: DecoderWeights, tokens_per_step: int) -> Optional["CompiledDecoder"]:
        """The step, or ``None`` if nothing was compiled or not for such a model.

        Args:
            tokens_per_step: so many tokens of a step see each other.
        """
        one_width = weights.project_in is None and weights.project_out is None
        if not one_width or any(layer.self_attn_norm is not None for layer in weights.layers):
            return None
        layers = [_layer(layer) for layer in weights.layers]
        network = compiled_transformer(weights, layers, tokens_per_step)
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
        self._network.bind(
            (_cache(cache), first_slot),
            past,
            positions,
            row_source,
            source_lengths,
            _cache(sources),
        )

    def step(self, tokens: Tensor, parents: Optional[Tensor] = None) -> Tensor:
        """See :meth:`.Transformer.step`."""
        return self._network.step(tokens, parents)

    def step_at(
        self, tokens: int, n_new: int, features: int, parents: Optional[int] = None
    ) -> None:
        """See :meth:`.Transformer.step_at`."""
        self._network.step_at(tokens, n_new, features, parents)


def _cache(cache: KeyValueCache) -> structures.Cache:
    address, shape = cache.place
    return transformer.cache_at(address, shape[2:], cache.dtype)


def _layer(layer: LayerWeights) -> transformer.Layer:
    linears = dict(
        self_qkv=layer.self_qkv,
        self_out=layer.self_out,
        cross_query=layer.cross_query,
        cross_out=layer.cross_out,
    )
    norms = dict(self_norm=layer.self_norm, cross_norm=layer.cross_norm)
    return compiled_layer(linears, norms, layer.feed_forward)
