"""A decoder's steps in one call of compiled code, where a processor multiplies.

What takes a small model's time in torch is to start some hundred operations for each step.
"""

import ctypes
import sys
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

# In fp32 measured up to so many: 2.2 times torch's speed with 8 tokens of a small model, 1.1 times
# with 160 of transformer base.
MAX_TOKENS = 192


class NativeStep:
    """The step of one decoder.

    Attributes:
        max_tokens: of a step; larger ones are torch's. In 8-bit integers all steps are compiled:
            where torch rounds an attention's sums otherwise, rounding to 8 bits makes 1 part in 127
            of it.
    """

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
        self.max_tokens = MAX_TOKENS if isinstance(first.self_qkv, Linear) else sys.maxsize

    @classmethod
    def of(cls, weights: DecoderWeights, together: int) -> Optional["NativeStep"]:
        """The step, or ``None`` if it was not compiled or is not for such a model.

        Args:
            together: how many tokens of a step see each other.
        """
        compiled = library()
        if compiled is None or not _is_known(weights):
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
            rows: where their keys and values lie, in fp32, and the slot of the first row.
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


def _is_known(weights: DecoderWeights) -> bool:
    """Whether ``step.cpp`` can do all that such a decoder does."""
    one_width = weights.project_in is None and weights.project_out is None
    in_fp32 = weights.embed.dtype == torch.float32
    return in_fp32 and one_width and all(map(_is_plain, weights.layers))


def _is_plain(layer: LayerWeights) -> bool:
    """Whether it has compiled products, and none of NormFormer's norms and scales.

    Of activations those are compiled that fairseq's large models have.
    """
    if not all(getattr(linear, "packed", None) for linear in _linears(layer)):
        return False
    feed_forward = layer.feed_forward
    extras = (layer.self_attn_norm, feed_forward.fc1_norm, feed_forward.residual_scale)
    return all(extra is None for extra in extras) and feed_forward.activation in (F.relu, gelu)
