"""A transformer's embedding and layers, as the compiled code computes them in one call."""

import ctypes
from typing import List, Optional, Protocol, Sequence, Tuple

import torch
from fairseq.modules import gelu
from torch import Tensor
from torch.nn import functional as F

from ..kernels import structures
from ..kernels.loading import Library, library, note_what_is_missed
from ..kernels.problems import address, check
from ..products.linear import Layer
from ..products.precision import Norm
from .weights import FeedForward

# Numbers of scratch memory that stay between calls: 16 MiB.
MOST_KEPT = 1 << 22


class HasFeedForward(Protocol):
    """What the layers of encoders and decoders have in common."""

    feed_forward: FeedForward


class Weights(Protocol):
    """What encoders and decoders have in common."""

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[Norm]
    layers: Sequence[HasFeedForward]
    final_norm: Optional[Norm]


class Network:
    """Tokens in, states out; each token is one of a row of tokens."""

    def __init__(
        self, compiled: Library, weights: Weights, layers: List[structures.Layer], together: int
    ) -> None:
        """
        Args:
            weights: with parameters in fp32.
            layers: made of the weights' layers; their memory is the weights'.
            together: how many tokens of a row see each other; 0: all.
        """
        self._library = compiled
        self._embed = weights.embed.contiguous()
        self._weights = weights  # whose memory the structures point to
        self._layers = (structures.Layer * len(layers))(*layers)
        feed_forward = weights.layers[0].feed_forward
        self._step = structures.Step(threads=compiled.address_of_threads())
        self._step.model = structures.Model(
            n_layers=len(layers),
            dim=self._embed.size(1),
            n_heads=weights.n_heads,
            head_dim=weights.head_dim,
            hidden=layers[0].fc1.outputs,
            pre_norm=feed_forward.pre_norm,
            gelu=feed_forward.activation is gelu,
            together=together,
            layers=ctypes.addressof(self._layers),
            embed_norm=norm_of(weights.embed_norm),
            final_norm=norm_of(weights.final_norm),
            embed=self._embed.data_ptr(),
            n_types=self._embed.size(0),
            embed_scale=weights.embed_scale,
        )
        self._address = ctypes.c_void_p(ctypes.addressof(self._step))
        self._positions: Optional[Tensor] = None
        self._kept = self._embed.new_empty(0)

    def __call__(
        self,
        tokens: Tensor,
        rows: Tuple[structures.Cache, int],
        past: Tensor,
        positions: Optional[Tensor],
        row_source: Tensor,
        source_lengths: Tensor,
        sources: Optional[structures.Cache] = None,
        parents: Optional[Tensor] = None,
    ) -> Tensor:
        """
        Args:
            tokens: int64 ``[R, T]``.
            rows: where their keys and values lie, in fp32, and the slot of the first row.
            past: int64 ``[R]``, the lengths of the rows.
            positions: fp32 ``[N, C]``, or ``None``; beyond the last is the last.
            row_source, source_lengths: the slot of each row's source, int64 ``[R]``, and the
                sources' lengths by slot. Where all tokens of a row see each other, they are of the
                row itself: it has so many tokens, and anything behind them.
            sources: the sources' keys and values, if any layer attends to them.
            parents: int64 ``[R, T]``, see :class:`~..tree.TokenTree` (default: each token follows
                the one before).

        Returns:
            fp32 ``[R, T, C]``

        Raises:
            IndexError: for tokens that are not in the dictionary, rows and sources that are not
                there, and rows that are longer than their memory.
            ValueError: for parents that make no tree, or one of more than 64 tokens in a row, and
                for tensors of other shapes or dtypes.
        """
        step, model = self._step, self._step.model
        tokens = tokens.contiguous()
        n_rows, n_new = tokens.shape
        features = self._embed.new_empty(*tokens.shape, model.dim)
        step.rows, step.first_slot = rows
        step.sources = sources or structures.Cache()
        step.n_rows, step.n_new, step.n_sources = n_rows, n_new, source_lengths.numel()
        step.n_threads = self._library.n_threads
        step.tokens = address(tokens, n_rows * n_new, "tokens")
        step.past = address(past, n_rows, "lengths of rows")
        parents = None if parents is None else parents.contiguous()
        step.parents = None if parents is None else address(parents, n_rows * n_new, "parents")
        step.row_source = address(row_source, n_rows, "sources of rows")
        step.source_lengths = address(source_lengths, step.n_sources, "lengths of sources")
        step.features = features.data_ptr()
        if positions is not self._positions:
            self._take_positions(positions)
        size = self._library.scratch_size(self._address)
        check(-min(size, 0))
        scratch = self._memory(size)
        step.scratch, step.scratch_size = scratch.data_ptr(), scratch.numel()
        check(self._library.run(self._address))
        return features

    def _take_positions(self, positions: Optional[Tensor]) -> None:
        model = self._step.model
        if positions is None:
            model.positions, model.n_positions = None, 0
        else:
            size = positions.size(0) * model.dim
            model.positions = address(positions, size, "embeddings of positions", torch.float32)
            model.n_positions = positions.size(0)
        self._positions = positions

    def _memory(self, size: int) -> Tensor:
        """Some fp32 numbers, written to in the last calls as well if they are few."""
        if size > MOST_KEPT:
            return self._embed.new_empty(size)
        if size > self._kept.numel():
            self._kept = self._embed.new_empty(min(2 * size, MOST_KEPT))
        return self._kept


def library_for(
    weights: Weights, linears: Sequence[Layer], norms: Sequence[Norm]
) -> Optional[Library]:
    """The compiled code, if there is any and it can do what such a network does.

    Of activations those are compiled that fairseq's large models have, and none of NormFormer's
    norms and scales. There may be models of several dtypes, which torch refuses or computes.

    Args:
        linears, norms: those of the layers.
    """
    dim = weights.embed.size(1)
    norms = [*norms, *filter(None, (weights.embed_norm, weights.final_norm))]
    in_fp32 = weights.embed.dtype == torch.float32 and all(_is_read(n, dim) for n in norms)
    plain = all(_is_plain(layer.feed_forward) for layer in weights.layers)
    if not (in_fp32 and plain):
        return None
    compiled = library()
    if compiled is None and weights.embed.device.type == "cpu":
        note_what_is_missed()
    return compiled if all(getattr(linear, "packed", None) for linear in linears) else None


def _is_read(norm: Norm, dim: int) -> bool:
    """Whether its numbers lie as compiled code reads them."""
    return all(
        numbers.dtype == torch.float32 and numbers.numel() == dim and numbers.is_contiguous()
        for numbers in (norm.weight, norm.bias)
    )


def _is_plain(feed_forward: FeedForward) -> bool:
    extras = (feed_forward.fc1_norm, feed_forward.residual_scale)
    return all(extra is None for extra in extras) and feed_forward.activation in (F.relu, gelu)


def norm_of(norm: Optional[Norm]) -> structures.Norm:
    """Its structure; one without weights if there is no norm."""
    if norm is None:
        return structures.Norm()
    return structures.Norm(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)
