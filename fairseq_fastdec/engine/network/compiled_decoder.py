"""A decoder's steps in one call of compiled code, where a processor multiplies.

What takes a small model's time in torch is to start some hundred operations for each step.
"""

from typing import List, Optional, Tuple

from torch import Tensor

from ..kernels import structures
from ..kernels.loading import Library
from ..products.linear import Layer
from ..products.precision import Norm
from .cache import KeyValueCache
from .compiled_network import Network, library_for, norm_of
from .weights import DecoderWeights, LayerWeights


class NativeStep:
    """The step of one decoder, of any number of tokens.

    To torch's, with products that are compiled there, too, 1.5 times as fast with 160 to 320 tokens
    of a small model, 1.2 times with those of transformer base, 1.0 to 1.9 times with up to 6,400.
    A token is computed alike in all steps. In 8-bit integers it has to be: where torch rounds an
    attention's sums otherwise, rounding to 8 bits makes 1 part in 127 of it.
    """

    def __init__(self, compiled: Library, weights: DecoderWeights, together: int) -> None:
        layers = [_structure(layer) for layer in weights.layers]
        self._network = Network(compiled, weights, layers, together)

    @classmethod
    def of(cls, weights: DecoderWeights, together: int) -> Optional["NativeStep"]:
        """The step, or ``None`` if it was not compiled or is not for such a model.

        Args:
            together: how many tokens of a step see each other.
        """
        linears = [linear for layer in weights.layers for linear in _linears(layer)]
        norms = [norm for layer in weights.layers for norm in _norms(layer)]
        compiled = library_for(weights, linears, norms)
        one_width = weights.project_in is None and weights.project_out is None
        plain = all(layer.self_attn_norm is None for layer in weights.layers)
        if compiled is None or not (one_width and plain):
            return None
        return cls(compiled, weights, together)

    def __call__(
        self,
        tokens: Tensor,
        rows: Tuple[KeyValueCache, int],
        past: Tensor,
        sources: KeyValueCache,
        row_source: Tensor,
        source_lengths: Tensor,
        positions: Optional[Tensor],
        parents: Optional[Tensor] = None,
    ) -> Tensor:
        """
        Args:
            tokens: int64 ``[R, T]``.
            rows: where their keys and values lie, in fp32, and the slot of the first row.
            past: int64 ``[R]``, the lengths of the rows.
            sources, row_source, source_lengths: the sources' keys and values, the slot of each
                row's source, int64 ``[R]``, and the sources' lengths by slot.
            positions: ``[N, C]``, or ``None``; beyond the last is the last.
            parents: of the tokens of a tree, int64 ``[R, T]``.

        Returns:
            features ``[R, T, C]``

        Raises:
            IndexError: for tokens that are not in the dictionary, rows and sources that are not
                there, and rows that are longer than their memory.
            ValueError: for parents that make no tree, or one of more than 64 tokens in a row, and
                for tensors of other shapes or dtypes.
        """
        cache, first_slot = rows
        return self._network(
            tokens,
            (_cache(cache), first_slot),
            past,
            positions,
            row_source,
            source_lengths,
            _cache(sources),
            parents,
        )


def _cache(cache: KeyValueCache) -> structures.Cache:
    address, (_, _, n_slots, n_heads, length, head_dim) = cache.place
    head = length * head_dim
    slot = n_heads * head
    return structures.Cache(
        address, 2 * n_slots * slot, n_slots * slot, slot, head, n_slots, length
    )


def _linears(layer: LayerWeights) -> List[Layer]:
    attentions = [layer.self_qkv, layer.self_out, layer.cross_query, layer.cross_out]
    return [*attentions, layer.feed_forward.fc1, layer.feed_forward.fc2]


def _norms(layer: LayerWeights) -> List[Norm]:
    return [layer.self_norm, layer.cross_norm, layer.feed_forward.norm]


def _structure(layer: LayerWeights) -> structures.Layer:
    linears = (linear.packed.structure for linear in _linears(layer))
    return structures.Layer(*linears, *map(norm_of, _norms(layer)))
