"""Caches of the keys and values of rows and sources."""

import math
from typing import NamedTuple, Optional, Union

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .attention import mask_of

LEAST_CAPACITY = 32

# The rows that stay, of which others are copied. A list may repeat rows, and does not wait for a
# GPU; a tensor, int64 [R'], has each row at most once.
Rows = Union[list[int], Tensor]
ALL_ROWS = slice(None)


def on_device(rows: Rows, device: torch.device) -> Tensor:
    """Rows as a tensor, int64 ``[R']``."""
    return rows if isinstance(rows, Tensor) else torch.tensor(rows, dtype=torch.long, device=device)


def on_host(rows: Rows) -> list[int]:
    """Rows as a list; a GPU waits for that of a tensor."""
    return rows.tolist() if isinstance(rows, Tensor) else rows


class RowCache:
    """Keys and values of the rows' tokens in all layers, ``[layers, 2, R, L, E]``.

    R and L are capacities. Row r has ``lengths[r]`` tokens. Data after them is undefined and never
    attended to, so reducing the length removes tokens. Only this object changes the rows' lengths.

    Attributes:
        lengths: int64 ``[R]``.
        reads_all: whether steps read the whole capacity, so that their shapes hardly change and a
            GPU can replay them; the mask hides what has not been written.
    """

    def __init__(self, n_layers: int, dim: int, like: Tensor) -> None:
        """
        Args:
            dim: E.
            like: a tensor with the dtype and device of the cache.
        """
        self._data = like.new_zeros(n_layers, 2, 0, 0, dim)
        # Where select() copies rows: a CPU would take longer to allocate memory than to copy.
        self._spare = self._data
        self.lengths = torch.zeros(0, dtype=torch.long, device=like.device)
        # No row has more tokens than its bound, which does not have to be read from a GPU.
        self._bounds = np.zeros(0, dtype=np.int64)
        self.reads_all = like.device.type != "cpu"

    def add(self, n: int) -> None:
        """Append n rows of length 0."""
        self.lengths, self._bounds = F.pad(self.lengths, (0, n)), np.pad(self._bounds, (0, n))
        missing = self.lengths.numel() - self._data.size(2)
        if missing > 0:
            self._data = F.pad(self._data, (0, 0, 0, 0, 0, missing))

    def reserve(self, rows: slice, n: int) -> int:
        """Ensure the capacity for n more tokens of ``rows``.

        Returns:
            the number of keys to read: as many as a row can have then, or the capacity if
            :attr:`reads_all`
        """
        length = int(self._bounds[rows].max(initial=0)) + n
        missing = length - self._data.size(3)
        if missing > 0:
            added = max(missing, self._data.size(3), LEAST_CAPACITY)
            self._data = F.pad(self._data, (0, 0, 0, added))
        return self._data.size(3) if self.reads_all else length

    def places_after(self, rows: slice, n: int) -> tuple[Tensor, Tensor]:
        """The places of the next n tokens of R' rows.

        Returns:
            rows int64 ``[R', 1]`` and positions int64 ``[R', n]``
        """
        lengths = self.lengths[rows]
        numbers = torch.arange(self.lengths.numel(), device=lengths.device)[rows]
        return numbers[:, None], lengths[:, None] + torch.arange(n, device=lengths.device)

    def write(self, layer: int, at: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
        """Store ``[R', T, E]`` at places from :meth:`places_after`."""
        self._data[layer, 0].index_put_(at, keys)
        self._data[layer, 1].index_put_(at, values)

    def read(self, layer: int, rows: slice, n_keys: int) -> tuple[Tensor, Tensor]:
        """The first keys and values of R' rows, which are not copied: ``[R', n_keys, E]`` each."""
        keys, values = self._data[layer, :, : self.lengths.numel(), :n_keys][:, rows]
        return keys, values

    def keep(self, rows: slice, n: Tensor, most: int) -> None:
        """Extend R' rows by tokens whose keys and values have been written after them.

        Args:
            n: int64 ``[R']``, the number of tokens that each row keeps, at most ``most``.
        """
        self.lengths[rows].add_(n)
        self._bounds[rows] += most

    def tighten(self, longest: int) -> None:
        """State that no row has more than ``longest`` tokens, so that fewer keys are read."""
        np.minimum(self._bounds, longest, out=self._bounds)

    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``."""
        index = on_device(rows, self.lengths.device)
        longest = int(self._bounds.max(initial=0))
        n, capacity = index.numel(), self._data.size(3)
        if self._spare.size(2) < n or self._spare.size(3) < capacity:
            layers, both, n_rows, _, dim = self._data.shape
            self._spare = self._data.new_zeros(layers, both, max(n, n_rows), capacity, dim)
        written, copies = (x[:, :, :, :longest] for x in (self._data, self._spare))
        torch.index_select(written, 2, index, out=copies[:, :, :n])
        self._data, self._spare = self._spare, self._data
        self.lengths = self.lengths[index]
        self._bounds = np.full(n, longest) if isinstance(rows, Tensor) else self._bounds[rows]


class Sharing(NamedTuple):
    """Rows grouped by their sources: those of a source attend to it at once, as if they were one.

    Each source has W slots, the greatest number of rows of a source.

    Attributes:
        sources: the S' sources of the R' rows.
        mask: of their keys, ``[S', 1, L]``.
        slots: of the rows, int64 ``[R']``; ``None`` if the slots are the rows in their order.
        rows: in the slots, int64 ``[S' W]``; any row in a slot that no row needs.
    """

    sources: slice
    mask: Tensor
    slots: Optional[Tensor] = None
    rows: Optional[Tensor] = None


class SourceCache:
    """Keys and values of the source sentences in all layers, ``[layers, 2, S, L, E]``.

    The rows of a source share them. A source is removed together with its last row, and keys that
    are padding for all that remain are removed with the sources that needed them.
    """

    def __init__(self, n_layers: int, dim: int, like: Tensor) -> None:
        self._data = like.new_zeros(n_layers, 2, 0, 0, dim)
        # The source of each row, in the memory of the host, so that no step waits for a GPU;
        # ``None`` if row i has source i.
        self._of_row: Optional[np.ndarray] = None
        # The number of keys of each source, with its padding.
        self._widths = np.zeros(0, dtype=np.int64)
        # See attention.mask_of: [S, L].
        self._mask = like.new_zeros(0, 0)

    def add(self, keys_values: Tensor, padding: Tensor) -> None:
        """Append sources, with one row each.

        Args:
            keys_values: ``[layers, 2, B, S, E]``.
            padding: bool ``[B, S]``.
        """
        n_sources, length = self._mask.shape
        if self._of_row is not None:
            new = np.arange(n_sources, n_sources + padding.size(0))
            self._of_row = np.concatenate([self._of_row, new])
        self._widths = np.concatenate([self._widths, np.full(*padding.shape)])
        width = max(length, padding.size(1))
        both = (self._data, keys_values)
        self._data = torch.cat([F.pad(x, (0, 0, 0, width - x.size(3))) for x in both], dim=2)
        masks = (self._mask, mask_of(padding, self._mask))
        self._mask = torch.cat([F.pad(x, (0, width - x.size(1)), value=-math.inf) for x in masks])

    def sharing(self, rows: slice) -> Sharing:
        """Group some rows by their sources."""
        if self._of_row is None:
            return Sharing(rows, self._mask_of(rows))
        of_row = self._of_row[rows]
        first, last = int(of_row.min()), int(of_row.max()) + 1
        sources, n_rows = slice(first, last), np.bincount(of_row - first)
        by_source, mask = np.argsort(of_row, kind="stable"), self._mask_of(sources)
        is_used = np.arange(n_rows.max()) < n_rows[:, None]
        if is_used.all() and (np.diff(by_source) == 1).all():
            return Sharing(sources, mask)
        slots, in_slots = np.empty_like(of_row), np.zeros(is_used.shape, dtype=np.int64)
        slots[by_source], in_slots[is_used] = np.flatnonzero(is_used), by_source
        both = torch.from_numpy(np.concatenate([slots, in_slots.ravel()])).to(mask.device)
        return Sharing(sources, mask, *both.split([slots.size, in_slots.size]))

    def read(self, layer: int, sharing: Sharing) -> tuple[Tensor, Tensor]:
        """The keys and values of S' sources, which are not copied: ``[S', L, E]`` each."""
        keys, values = self._data[layer, :, sharing.sources, : sharing.mask.size(-1)]
        return keys, values

    def _mask_of(self, sources: slice) -> Tensor:
        return self._mask[sources, None, : int(self._widths[sources].max(initial=0))]

    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``."""
        if isinstance(rows, Tensor) and self._of_row is None:
            used, self._widths = rows, np.full(rows.numel(), self._mask.size(1))
        else:
            of_row = np.array(on_host(rows), dtype=np.int64)
            if self._of_row is not None:
                of_row = self._of_row[of_row]
            sources, self._of_row = np.unique(of_row, return_inverse=True)
            if len(sources) == len(self._mask):
                return
            self._widths = self._widths[sources]
            used = torch.from_numpy(sources).to(self._mask.device)
        width = self._widths.max(initial=0)
        self._data = self._data[:, :, :, :width].index_select(2, used)
        self._mask = self._mask[:, :width].index_select(0, used)
