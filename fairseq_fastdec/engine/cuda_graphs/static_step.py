"""A step whose shapes and addresses stay the same, so that a CUDA graph can hold it."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from ..network.attention import causal_mask, padding_mask
from ..network.cache import KeyValueCache
from ..network.forward import ForwardPass, RowKeys, SourceKeys
from ..network.source_grid import rank_within

# Steps of more tokens are not recorded: they should keep a GPU busy for longer than their launches
# take. Nobody has measured where that begins.
MAX_TOKENS = 1024
# Lengths are padded to multiples of this number, longer ones to multiples of a greater one.
GRANULE = 32


class StaticDecoder(NamedTuple):
    """The parts of a decoder that stay the same for many steps.

    Attributes:
        forward: the forward pass over the prepared weights.
        row_cache, source_cache: the keys and values of the rows and of the sources.
        tokens_per_step: how many neighbouring tokens see each other.
        rounding: the dtype that products round to.
        device: where all of it lies.
    """

    forward: ForwardPass
    row_cache: KeyValueCache
    source_cache: KeyValueCache
    tokens_per_step: int
    rounding: torch.dtype
    device: torch.device


class SourceLayout:
    """The source that each row belongs to, paused rows included.

    The numbers of sources and of rows of a source are padded to powers of two: cell
    ``s * n_per_source + i`` is for the i-th row of source s.

    Attributes:
        n_sources, n_per_source: how many sources and rows of a source there are, padded.
        n_keys: the longest source's length, padded.
        lengths: int64 ``[n_sources]``. A source that is padding has one key, since the softmax of
            no key would be NaN.
        row_cell: int64 ``[R]``, the cell of each row.
        cell_row: int64 ``[n_sources * n_per_source]``, the row of each cell, and any row where a
            cell has none.
    """

    def __init__(self, row_source: Tensor, source_lengths: Tensor) -> None:
        """
        Args:
            row_source: int64 ``[R]``, R at least 1; source_lengths: int64 ``[S]``.
        """
        widest = torch.stack([row_source.bincount().max(), source_lengths.max()])
        n_per_source, longest = widest.tolist()
        self.n_sources = power_of_two(source_lengths.numel())
        self.n_per_source = power_of_two(n_per_source)
        self.n_keys = padded_length(longest)
        n_padding = self.n_sources - source_lengths.numel()
        self.lengths = F.pad(source_lengths, (0, n_padding), value=1)
        self.row_cell = row_source * self.n_per_source + rank_within(row_source)
        self.cell_row = row_source.new_zeros(self.n_sources * self.n_per_source)
        rows = torch.arange(row_source.numel(), device=row_source.device)
        self.cell_row[self.row_cell] = rows


class RowState(NamedTuple):
    """The lengths of the rows before a step, and the sources that they belong to.

    Attributes:
        lengths: int64 ``[R]``, the lengths of all rows, paused ones included.
        first: how many rows are paused; the step is for the others.
        longest: the greatest length.
        layout: how the rows belong to the sources.
    """

    lengths: Tensor
    first: int
    longest: int
    layout: SourceLayout


class StepShape(NamedTuple):
    """The sizes of a static step; all steps that it fits are computed in them."""

    n_rows: int
    n_new: int
    n_keys: int
    n_sources: int
    n_per_source: int
    n_source_keys: int

    @classmethod
    def fitting(cls, state: RowState, n_new: int, tokens_per_step: int) -> "StepShape":
        """The smallest shape for a step of ``n_new`` tokens, a multiple of ``tokens_per_step``."""
        n_new = tokens_per_step * power_of_two(n_new // tokens_per_step)
        layout = state.layout
        return cls(
            power_of_two(state.lengths.numel()),
            n_new,
            padded_length(state.longest + n_new),
            layout.n_sources,
            layout.n_per_source,
            layout.n_keys,
        )

    @property
    def is_small(self) -> bool:
        """Whether it takes longer to launch the step's kernels than to run them."""
        return self.n_rows * self.n_new <= MAX_TOKENS


class StaticStep:
    """The step of one :class:`StepShape`: :meth:`load` the rows, then :meth:`run` it or its graph.

    :meth:`run` reads its buffers, the prepared weights and the caches only. It always does the same
    operations on the same addresses, and never waits for the device.

    The step also computes its padding, which nobody reads: padding rows write to slots that belong
    to nobody, and padding tokens of a row to where its next step writes. Paused rows take part in
    the same way, since a slice of the cache must always begin at the same address. Buffers may
    still hold the numbers of other rows, which were within the same bounds.
    """

    def __init__(self, decoder: StaticDecoder, shape: StepShape) -> None:
        """
        Args:
            decoder: its caches must have room for the shape, and must not move.
        """
        self._decoder = decoder
        self._shape = shape
        n_cells = shape.n_sources * shape.n_per_source
        zeros = torch.zeros(shape.n_rows, dtype=torch.long, device=decoder.device)
        self._tokens = zeros.new_zeros(shape.n_rows, shape.n_new)
        self._lengths = zeros
        self._grid = _CellGrid(zeros.clone(), zeros.new_zeros(n_cells), shape.n_per_source)
        self._source_lengths = zeros.new_ones(shape.n_sources)
        self._layout: Optional[SourceLayout] = None

    def load(self, state: RowState, tokens: Tensor) -> None:
        """Copy the rows' state and tokens, int64 ``[R, T]``, to where :meth:`run` reads them."""
        n_rows, n_new = tokens.shape
        self._tokens[state.first : state.first + n_rows, :n_new] = tokens
        self._lengths[: state.lengths.numel()] = state.lengths
        layout = state.layout
        if layout is not self._layout:
            self._layout = layout
            self._source_lengths.copy_(layout.lengths)
            self._grid.row_cell[: layout.row_cell.numel()] = layout.row_cell
            self._grid.cell_row.copy_(layout.cell_row)

    def run(self) -> Tensor:
        """Features ``[n_rows, n_new, C]``, padding included."""
        decoder, shape = self._decoder, self._shape
        new = torch.arange(shape.n_new, device=self._lengths.device)
        positions = self._lengths[:, None] + new
        rows = RowKeys(
            decoder.row_cache,
            slice(0, shape.n_rows),
            positions,
            n_keys=shape.n_keys,
            mask=causal_mask(
                self._lengths,
                shape.n_new,
                shape.n_keys,
                decoder.row_cache.dtype,
                decoder.tokens_per_step,
            ),
        )
        sources = SourceKeys(
            decoder.source_cache,
            slice(0, shape.n_sources),
            shape.n_source_keys,
            padding_mask(self._source_lengths, shape.n_source_keys, decoder.source_cache.dtype),
            self._grid,
        )
        return decoder.forward(self._tokens, rows, sources)


class _CellGrid(NamedTuple):
    """A :class:`~..network.forward.Grid` whose shape stays; for its attributes see
    :class:`SourceLayout`."""

    row_cell: Tensor
    cell_row: Tensor
    n_per_source: int

    def spread(self, queries: Tensor) -> Tensor:
        cells = queries.index_select(0, self.cell_row)
        n_new, n_heads, head_dim = queries.shape[1:]
        return cells.view(-1, self.n_per_source * n_new, n_heads, head_dim)

    def collect(self, context: Tensor, n_new: int) -> Tensor:
        cells = context.view(self.cell_row.numel(), n_new, -1)
        return cells.index_select(0, self.row_cell)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n, for n of at least 1."""
    return 1 << (n - 1).bit_length()


def padded_length(n: int) -> int:
    """n, padded to a multiple of 32 or, for longer ones, of an eighth of the next power of two."""
    granule = max(GRANULE, power_of_two(n) // 8)
    return -(-n // granule) * granule
