"""Steps of a handful of tokens in one call of compiled code, where a processor multiplies.

What takes a small model's time in torch is to start some hundred operations for each step.
"""

import ctypes
from typing import Optional, Tuple

import torch
from fairseq.modules import gelu
from torch import Tensor
from torch.nn import functional as F

from ..cache import KeyValueCache
from ..linear import Layer, Linear
from ..precision import Norm
from ..weights import DecoderWeights, LayerWeights
from . import structures
from .loading import Library, library

# Measured up to so many: 2.2 times torch's speed with 8 tokens of a small model, 1.1 times with 160
# of transformer base.
MAX_TOKENS = 192


class NativeStep:
    """The step of one decoder."""

    def __init__(self, compiled: Library, weights: DecoderWeights, together: int) -> None:
        self._library = compiled
        self._embed = weights.embed.contiguous()
        self._weights = weights  # whose memory the structures point to
        structs = [_layer(layer) for layer in weights.layers]
        self._layers = (structures.Layer * len(structs))(*structs)
        self._step = structures.Step()
        first = weights.layers[0]
        self._step.model = structures.Model(
            n_layers=len(structs),
            dim=self._embed.size(1),
            n_heads=weights.n_heads,
            head_dim=weights.head_dim,
            hidden=structs[0].fc1.outputs,
            pre_norm=first.pre_norm,
            gelu=first.feed_forward.activation is gelu,
            together=together,
            layers=ctypes.addressof(self._layers),
            embed_norm=_norm(weights.embed_norm),
            final_norm=_norm(weights.final_norm),
            embed=self._embed.data_ptr(),
            n_types=self._embed.size(0),
            embed_scale=weights.embed_scale,
        )
        self._step.threads = compiled.address_of_threads()
        self._address = ctypes.c_void_p(ctypes.addressof(self._step))
        self._scratch = self._embed.new_empty(0)

    @classmethod
    def of(
        cls, weights: DecoderWeights, attention: torch.dtype, together: int
    ) -> Optional["NativeStep"]:
        """The step, or ``None`` if it was not compiled or is not for such a model.

        Args:
            attention: the dtype of the caches.
            together: how many tokens of a step see each other.
        """
        compiled = library()
        if compiled is None or not _is_known(weights, attention):
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
    ) -> Tensor:
        """
        Args:
            tokens: int64 ``[R, T]``.
            rows: where their keys and values lie, and the slot of the first row.
            past: int64 ``[R]``, the lengths of the rows.
            sources, row_source, source_lengths: the sources' keys and values, the slot of each
                row's source, int64 ``[R]``, and the sources' lengths by slot.
            positions: ``[N, C]``, or ``None``; beyond the last is the last.

        Returns:
            features ``[R, T, C]``

        Raises:
            IndexError: for tokens that are not in the dictionary.
        """
        step, model = self._step, self._step.model
        tokens = tokens.contiguous()
        features = self._embed.new_empty(*tokens.shape, model.dim)
        cache, step.first_slot = rows
        step.rows, step.sources = _cache(cache), _cache(sources)
        step.n_rows, step.n_new = tokens.shape
        step.n_threads = self._library.n_threads
        step.tokens, step.past = tokens.data_ptr(), past.data_ptr()
        step.row_source, step.source_lengths = row_source.data_ptr(), source_lengths.data_ptr()
        step.features = features.data_ptr()
        model.positions, model.n_positions = (
            (None, 0) if positions is None else (positions.data_ptr(), positions.size(0))
        )
        size = self._library.scratch_size(self._address)
        if size > self._scratch.numel():
            self._scratch = self._embed.new_empty(2 * size)
        step.scratch = self._scratch.data_ptr()
        if self._library.run(self._address):
            raise IndexError("tokens that are not in the dictionary")
        return features


def _cache(cache: KeyValueCache) -> structures.Cache:
    address, (_, _, n_slots, n_heads, length, head_dim) = cache.place
    head = length * head_dim
    slot = n_heads * head
    return structures.Cache(address, 2 * n_slots * slot, n_slots * slot, slot, head)


def _linears(layer: LayerWeights) -> Tuple[Layer, ...]:
    attentions = (layer.self_qkv, layer.self_out, layer.cross_query, layer.cross_out)
    return (*attentions, layer.feed_forward.fc1, layer.feed_forward.fc2)


def _layer(layer: LayerWeights) -> structures.Layer:
    linears = (linear.packed.structure for linear in _linears(layer))
    norms = (layer.self_norm, layer.cross_norm, layer.feed_forward.norm)
    return structures.Layer(*linears, *map(_norm, norms))


def _norm(norm: Optional[Norm]) -> structures.Norm:
    if norm is None:
        return structures.Norm()
    return structures.Norm(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)


def _is_known(weights: DecoderWeights, attention: torch.dtype) -> bool:
    """Whether ``step.cpp`` can do all that such a decoder does."""
    packed = all(isinstance(each, Linear) and each.packed for each in _linears(weights.layers[0]))
    in_fp32 = packed and weights.embed.dtype == attention == torch.float32
    one_width = weights.project_in is None and weights.project_out is None
    return in_fp32 and one_width and all(map(_is_plain, weights.layers))


def _is_plain(layer: LayerWeights) -> bool:
    """Whether it has none of NormFormer's norms and scales, and an activation that is compiled."""
    feed_forward = layer.feed_forward
    extras = (layer.self_attn_norm, feed_forward.fc1_norm, feed_forward.residual_scale)
    return all(extra is None for extra in extras) and feed_forward.activation in (F.relu, gelu)
