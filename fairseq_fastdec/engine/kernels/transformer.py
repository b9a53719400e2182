"""A decoder's step or an encoder in one call of compiled code."""

import ctypes
from typing import Iterator, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import torch
from torch import Tensor

from . import loading, structures
from .loading import Library
from .packed import Packed
from .problems import OUT_OF_SCRATCH, address, check

# So many numbers of scratch memory stay between calls: 16 MiB.
MOST_KEPT = 1 << 22


class LayerNorm(Protocol):
    """A layer normalisation over the last dimension."""

    weight: Tensor  # [C]
    bias: Tensor  # [C]
    eps: float


class LayerParameters(NamedTuple):
    """The parameters of a layer, by the names of their fields in :class:`structures.Layer`.

    Attributes:
        linears: those that attend to sources may be missing; ``None`` for one that is not packed.
        norms: NormFormer's may be missing, or ``None``.
        residual_scale: ``[C]``, NormFormer's; ``None`` for no scale.
    """

    linears: Mapping[str, Optional[Packed]]
    norms: Mapping[str, Optional[LayerNorm]]
    residual_scale: Optional[Tensor] = None


class Parameters(NamedTuple):
    """The parts and sizes of a transformer, as compiled code needs them.

    Attributes:
        pre_norm: whether norms come before the sublayers, and not after them.
        activation: of feed-forward networks, one of :data:`structures.EPILOGUES` but "add".
        tokens_per_step: so many neighbouring tokens of a row see each other; 0: all do.
        embed: ``[V, C]``.
        embed_scale: words' embeddings are multiplied by this, positions' are not.
    """

    n_heads: int
    head_dim: int
    pre_norm: bool
    activation: str
    tokens_per_step: int
    embed: Tensor
    embed_scale: float
    embed_norm: Optional[LayerNorm]
    layers: Sequence[LayerParameters]
    final_norm: Optional[LayerNorm]


class Transformer:
    """Tokens in, states out; each token is one of a row of tokens. For one thread at a time.

    Attributes:
        parameters: what it was made of; embed: ``[V, C]``, read at every step.
        structure: as compiled code takes it, for the rows that were bound.
    """

    def __init__(self, library: Library, parameters: Parameters) -> None:
        """
        Args:
            parameters: their memory is read whenever it is called.
        """
        self._library = library
        self.parameters = parameters  # whose memory is read
        self.embed = parameters.embed.contiguous()
        layers = [_layer(layer) for layer in parameters.layers]
        self._layers = (structures.Layer * len(layers))(*layers)
        self.structure = structures.Step(threads=library.address_of_threads())
        self.structure.model = structures.Model(
            n_layers=len(layers),
            dim=self.embed.size(1),
            n_heads=parameters.n_heads,
            head_dim=parameters.head_dim,
            hidden=layers[0].fc1.outputs,
            pre_norm=parameters.pre_norm,
            activation=structures.EPILOGUES.index(parameters.activation),
            tokens_per_step=parameters.tokens_per_step,
            layers=ctypes.addressof(self._layers),
            embed_norm=norm_structure(parameters.embed_norm),
            final_norm=norm_structure(parameters.final_norm),
            embed=self.embed.data_ptr(),
            n_types=self.embed.size(0),
            embed_scale=parameters.embed_scale,
        )
        self._address = ctypes.c_void_p(ctypes.addressof(self.structure))
        self._positions: Optional[Tensor] = None
        self._scratch = self.embed.new_empty(0)
        # Encoders have so many tokens that they use all threads.
        self._said_threads = not parameters.tokens_per_step

    @classmethod
    def of(cls, parameters: Parameters) -> Optional["Transformer"]:
        """The transformer, if compiled code can run it.

        Returns:
            ``None`` for embeddings and norms in other numbers than fp32, for linear layers that are
            not packed, for layers that differ in their hidden units, or where nothing was compiled;
            then a model on a CPU is told once
        """
        embed = parameters.embed
        if embed.dtype != torch.float32:
            return None
        library = loading.library()
        if library is None and embed.device.type == "cpu":
            loading.warn_if_not_built()
        packed = all(linear for layer in parameters.layers for linear in layer.linears.values())
        if library is None or not packed:
            return None
        n_hidden = {layer.linears["fc1"].structure.outputs for layer in parameters.layers}
        if len(n_hidden) > 1 or not all(map(is_readable, _vectors(parameters))):
            return None
        return cls(library, parameters)

    def bind(
        self,
        rows: Tuple[structures.Cache, int],
        past: Tensor,
        positions: Optional[Tensor],
        row_source: Tensor,
        source_lengths: Tensor,
        sources: Optional[structures.Cache] = None,
    ) -> None:
        """Say which rows the next steps are of. The numbers are read at every step.

        Args:
            rows: where their keys and values lie, and the slot of the first row.
            past: int64 ``[R]``, the lengths of the rows.
            positions: fp32 ``[N, C]``, or ``None``; beyond the last is the last.
            row_source, source_lengths: the slot of each row's source, int64 ``[R]``, and the
                sources' lengths by slot. Where all tokens of a row see each other, the row is its
                own source: it has so many tokens, and anything behind them.
            sources: the sources' keys and values, if any layer attends to them.

        Raises:
            ValueError: for tensors of other shapes or dtypes.
        """
        step = self.structure
        step.n_rows, step.n_sources = past.numel(), source_lengths.numel()
        step.rows, step.first_slot = rows
        step.sources = sources or structures.Cache()
        step.past = address(past, step.n_rows, "lengths of rows")
        step.row_source = address(row_source, step.n_rows, "sources of rows")
        step.source_lengths = address(source_lengths, step.n_sources, "lengths of sources")
        if positions is not self._positions:
            self._take_positions(positions)
        self._bound = (past, row_source, source_lengths)

    def step(self, tokens: Tensor, parents: Optional[Tensor] = None) -> Tensor:
        """Compute tokens of the rows that were bound.

        Args:
            tokens: int64 ``[R, T]``.
            parents: int64 ``[R, T]``, which token of a tree each follows; -1: the row itself
                (default: each token follows the one before).

        Returns:
            fp32 ``[R, T, C]``

        Raises:
            IndexError: for tokens that are not in the dictionary, rows and sources that are not
                there, and rows that are longer than their memory.
            ValueError: for parents that make no tree, or one of more than 64 tokens in a row, and
                for tensors of other shapes or dtypes.
        """
        tokens = tokens.contiguous()
        n_rows, n_new = tokens.shape
        features = self.embed.new_empty((n_rows, n_new, self.embed.size(1)))
        n = self.structure.n_rows * n_new
        place = address(tokens, n, "tokens")
        if parents is None:
            self.step_at(place, n_new, features.data_ptr())
        else:
            parents = parents.contiguous()
            self.step_at(place, n_new, features.data_ptr(), address(parents, n, "parents"))
        return features

    def step_at(
        self, tokens: int, n_new: int, features: int, parents: Optional[int] = None
    ) -> None:
        """:meth:`step` between places in memory, for callers that keep theirs.

        Args:
            tokens, features, parents: the addresses of what :meth:`step` takes and returns. Who
                calls it answers for their sizes.
        """
        step = self.structure
        step.n_new, step.n_threads = n_new, self._library.n_threads
        step.tokens, step.features, step.parents = tokens, features, parents
        problem = self._library.run_step(self._address)
        if problem == OUT_OF_SCRATCH:
            problem = self._run_with_more_scratch()
        check(problem)
        if not self._said_threads:
            self._say_threads()

    def _say_threads(self) -> None:
        """Tell the log how many threads the step has used."""
        self._said_threads = True
        step, model = self.structure, self.structure.model
        n_threads = self._library.step_threads(self._address)
        what = f"{model.n_layers} layers with states of {model.dim}"
        loading.log_threads(n_threads, step.n_threads, what)

    def _run_with_more_scratch(self) -> int:
        """Run the step once more; returns the problem.

        Much memory is given back at once: steps of so many tokens are rare.
        """
        step, kept = self.structure, self._scratch
        size = self._library.step_scratch_size(self._address)
        if size <= MOST_KEPT:
            self._scratch = kept = self.embed.new_empty(min(2 * size, MOST_KEPT))
        scratch = kept if size <= MOST_KEPT else self.embed.new_empty(size)
        step.scratch, step.scratch_size = scratch.data_ptr(), scratch.numel()
        problem = self._library.run_step(self._address)
        step.scratch, step.scratch_size = kept.data_ptr(), kept.numel()
        return problem

    def _take_positions(self, positions: Optional[Tensor]) -> None:
        model = self.structure.model
        if positions is None:
            model.positions, model.n_positions = None, 0
        else:
            size = positions.size(0) * model.dim
            model.positions = address(positions, size, "embeddings of positions", torch.float32)
            model.n_positions = positions.size(0)
        self._positions = positions


def cache_at(
    data: int, shape: Tuple[int, int, int, int], dtype: torch.dtype, layers_apart: bool = True
) -> structures.Cache:
    """Keys and values ``[layers, 2, slots, heads, length, head_dim]`` that lie side by side.

    Args:
        data: their address.
        shape: ``(slots, heads, length, head_dim)``.
        dtype: fp32 or bf16.
        layers_apart: without, there is memory for one layer, and all layers use it in turn.

    Raises:
        TypeError: for another dtype.
    """
    if dtype not in (torch.float32, torch.bfloat16):
        raise TypeError(f"keys and values in {dtype}")
    n_slots, n_heads, length, head_dim = shape
    head = length * head_dim
    slot = n_heads * head
    part = n_slots * slot
    layer = 2 * part if layers_apart else 0
    is_bf16 = dtype == torch.bfloat16
    return structures.Cache(data, is_bf16, layer, part, slot, head, n_slots, length)


def _vectors(parameters: Parameters) -> Iterator[Tuple[Tensor, int]]:
    """The vectors that compiled code reads, and how many numbers it reads of each."""
    dim = parameters.embed.size(1)
    norms = [(norm, dim) for norm in (parameters.embed_norm, parameters.final_norm)]
    for layer in parameters.layers:
        hidden = layer.linears["fc1"].structure.outputs
        norms += [
            (norm, hidden if name == "fc1_norm" else dim) for name, norm in layer.norms.items()
        ]
        if layer.residual_scale is not None:
            yield layer.residual_scale, dim
    for norm, size in norms:
        if norm is not None:
            yield norm.weight, size
            yield norm.bias, size


def is_readable(vector: Tuple[Tensor, int]) -> bool:
    """Whether the numbers of a vector, so many of them, lie as compiled code reads them."""
    numbers, size = vector
    return numbers.dtype == torch.float32 and numbers.numel() == size and numbers.is_contiguous()


def _layer(layer: LayerParameters) -> structures.Layer:
    linears = {name: linear.structure for name, linear in layer.linears.items()}
    norms = {name: norm_structure(norm) for name, norm in layer.norms.items()}
    scale = layer.residual_scale
    return structures.Layer(
        **linears, **norms, residual_scale=None if scale is None else scale.data_ptr()
    )


def norm_structure(norm: Optional[LayerNorm]) -> structures.Norm:
    """A norm as compiled code takes it; one without weights for none."""
    if norm is None:
        return structures.Norm()
    return structures.Norm(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)
