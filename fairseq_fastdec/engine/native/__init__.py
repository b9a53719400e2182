"""Steps of a handful of tokens in one call of compiled code, where a processor multiplies.

What takes a small model's time in torch is to start some hundred operations for each step.
"""

import ctypes
from typing import Iterator, List, Optional, Tuple

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import gelu
from torch import Tensor
from torch.nn import functional as F

from ..cache import KeyValueCache
from ..linear import Linear
from ..precision import Norm, Precision
from ..weights import DecoderWeights, LayerWeights, decoder_layers, layer_weights
from . import structures
from .loading import Library, library

# Measured up to so many: 2.2 times torch's speed with 8 tokens of a small model, 1.1 times with 160
# of transformer base.
MAX_TOKENS = 192


class PackedLinear:
    """A weight ``[out, in]`` as ``step.cpp`` reads it: ``[blocks, in, block]``, filled up."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        self._outputs, self._inputs = weight.shape
        block = library().block
        lacking = -self._outputs % block
        blocks = F.pad(weight, (0, 0, 0, lacking)).view(-1, block, self._inputs)
        self._weight = blocks.transpose(1, 2).contiguous()
        bias = weight.new_zeros(self._outputs) if bias is None else bias
        self._bias = F.pad(bias, (0, lacking))

    def structure(self) -> structures.Linear:
        """As the library takes it; good for as long as this object lives."""
        return structures.Linear(
            self._weight.data_ptr(), self._bias.data_ptr(), self._inputs, self._outputs
        )


PACKED = Precision(torch.float32, PackedLinear, PackedLinear)


class NativeStep:
    """The step of one decoder."""

    def __init__(
        self, compiled: Library, decoder: TransformerDecoderBase, weights: DecoderWeights
    ) -> None:
        self._library = compiled
        self._embed = weights.embed.contiguous()
        self._layers = [layer_weights(layer, PACKED) for layer in decoder_layers(decoder)]
        self._norms = (weights.embed_norm, weights.final_norm)
        structs = [_layer(layer) for layer in self._layers]
        self._structs = (structures.Layer * len(structs))(*structs)
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
            together=getattr(decoder, "tokens_per_step", 1),
            layers=ctypes.addressof(self._structs),
            embed_norm=_norm(weights.embed_norm),
            final_norm=_norm(weights.final_norm),
            embed=self._embed.data_ptr(),
            n_types=self._embed.size(0),
            embed_scale=weights.embed_scale,
        )
        self._threads = compiled.threads
        if self._threads is not None:
            self._step.threads = ctypes.addressof(self._threads)
        self._address = ctypes.c_void_p(ctypes.addressof(self._step))
        self._scratch = self._embed.new_empty(0)

    @classmethod
    def of(
        cls, decoder: TransformerDecoderBase, weights: DecoderWeights, precision: Precision
    ) -> Optional["NativeStep"]:
        """The step, or ``None`` if it was not compiled or is not for such a model."""
        compiled = library()
        if compiled is None or next(_obstacles(weights, precision), None):
            return None
        return cls(compiled, decoder, weights)

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
        step.n_threads = 1 if self._threads is None else torch.get_num_threads()
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


def _layer(layer: LayerWeights) -> structures.Layer:
    feed_forward = layer.feed_forward
    linears = (layer.self_qkv, layer.self_out, layer.cross_query, layer.cross_out)
    linears += (feed_forward.fc1, feed_forward.fc2)
    norms = (layer.self_norm, layer.cross_norm, feed_forward.norm)
    return structures.Layer(*(linear.structure() for linear in linears), *map(_norm, norms))


def _norm(norm: Optional[Norm]) -> structures.Norm:
    if norm is None:
        return structures.Norm()
    return structures.Norm(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)


def _obstacles(weights: DecoderWeights, precision: Precision) -> Iterator[str]:
    """What ``step.cpp`` does not know, in words."""
    embed = weights.embed
    if embed.device.type != "cpu" or embed.dtype != torch.float32:
        yield "numbers that are not fp32 in memory"
    if precision.product is not Linear or precision.attention not in (None, torch.float32):
        yield "another precision"
    if weights.project_in is not None or weights.project_out is not None:
        yield "embeddings of another width"
    for layer in weights.layers:
        feed_forward = layer.feed_forward
        extras: List = [layer.self_attn_norm, feed_forward.fc1_norm, feed_forward.residual_scale]
        if any(extra is not None for extra in extras):
            yield "NormFormer's norms and scales"
        if feed_forward.activation not in (F.relu, gelu):
            yield "another activation"
