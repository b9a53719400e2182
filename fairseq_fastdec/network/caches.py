"""Caches of the keys and values of rows and sources."""

import math
from typing import Optional, Union

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .attention import mask_of

LEAST_CAPACITY = 32

# The rows that stay, of which others are copied. A list may repeat rows, and does not wait for a
# GPU; a tensor, int64 [R'], has each row at most once.
Rows = Union[list[int], Tensor]


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
        longest: no row has more tokens. It is a number of Python, so that nothing has to be read
            from a GPU.
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
        self.longest = 0
        self.reads_all = like.device.type != "cpu"

    def add(self, n: int) -> None:
        """Append n rows of length 0."""
        self.lengths = F.pad(self.lengths, (0, n))
        missing = self.lengths.numel() - self._data.size(2)
        if missing > 0:
            self._data = F.pad(self._data, (0, 0, 0, 0, 0, missing))

    def reserve(self, length: int) -> int:
        """Ensure the capacity for rows of this length.

        Returns:
            the number of keys to read: ``length``, or the capacity if :attr:`reads_all`
        """
        missing = length - self._data.size(3)
        if missing > 0:
            added = max(missing, self._data.size(3), LEAST_CAPACITY)
            self._data = F.pad(self._data, (0, 0, 0, added))
        return self._data.size(3) if self.reads_all else length

    def places_after(self, rows: Optional[Tensor], n: int) -> tuple[Tensor, Tensor]:
        """The places of the next n tokens of ``rows`` int64 ``[R']``, by default all.

        Returns:
            rows int64 ``[R', 1]`` and positions int64 ``[R', n]``
        """
        lengths = self.lengths if rows is None else self.lengths[rows]
        if rows is None:
            rows = torch.arange(lengths.numel(), device=lengths.device)
        return rows[:, None], lengths[:, None] + torch.arange(n, device=lengths.device)

    def write(self, layer: int, at: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
        """Store ``[R', T, E]`` at places from :meth:`places_after`."""
        self._data[layer, 0].index_put_(at, keys)
        self._data[layer, 1].index_put_(at, values)

    def read(self, layer: int, rows: Optional[Tensor], n_keys: int) -> tuple[Tensor, Tensor]:
        """The first keys and values of ``rows``, by default all: ``[R', n_keys, E]`` each."""
        found = self._data[layer, :, : self.lengths.numel(), :n_keys]
        keys, values = found if rows is None else found.index_select(1, rows)
        return keys, values

    def keep(self, rows: Optional[Tensor], n: Tensor, most: int) -> None:
        """Extend rows by tokens whose keys and values have been written after them.

        Args:
            rows: int64 ``[R']``, by default all.
            n: int64 ``[R']``, the number of tokens that each row keeps, at most ``most``.
        """
        if rows is None:
            self.lengths = self.lengths + n
        else:
            self.lengths[rows] += n
        self.longest += most

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of row ``rows[i]``; int64 ``[R']``."""
        n, capacity = rows.numel(), self._data.size(3)
        if self._spare.size(2) < n or self._spare.size(3) < capacity:
            layers, both, n_rows, _, dim = self._data.shape
            self._spare = self._data.new_zeros(layers, both, max(n, n_rows), capacity, dim)
        written, copies = (x[:, :, :, : self.longest] for x in (self._data, self._spare))
        torch.index_select(written, 2, rows, out=copies[:, :, :n])
        self._data, self._spare = self._spare, self._data
        self.lengths = self.lengths[rows]


class SourceCache:
    """Keys and values of the source sentences in all layers, ``[layers, 2, S, L, E]``.

    The rows of a source share them. A source is removed together with its last row.

    Attributes:
        of_row: int64 ``[R]``, the source of each row; ``None`` if row i has source i.
    """

    def __init__(self, n_layers: int, dim: int, like: Tensor) -> None:
        self._data = like.new_zeros(n_layers, 2, 0, 0, dim)
        self.of_row: Optional[Tensor] = None
        # The same in the memory of the host, so that no step waits for a GPU.
        self._on_host: Optional[np.ndarray] = None
        # Whether all sources have the same number of rows, in their order.
        self._is_even = True
        # See attention.mask_of: [S, L].
        self._mask = like.new_zeros(0, 0)

    @property
    def n_sources(self) -> int:
        """S, the number of sources."""
        return self._mask.size(0)

    def add(self, keys_values: Tensor, padding: Tensor) -> None:
        """Append sources, with one row each.

        Args:
            keys_values: ``[layers, 2, B, S, E]``.
            padding: bool ``[B, S]``.
        """
        n_sources, length = self._mask.shape
        if self._on_host is not None:
            new = np.arange(n_sources, n_sources + padding.size(0))
            self._set_of_row(np.concatenate([self._on_host, new]))
        width = max(length, padding.size(1))
        both = (self._data, keys_values)
        self._data = torch.cat([F.pad(x, (0, 0, 0, width - x.size(3))) for x in both], dim=2)
        masks = (self._mask, mask_of(padding, self._mask))
        self._mask = torch.cat([F.pad(x, (0, width - x.size(1)), value=-math.inf) for x in masks])

    def sources_of(self, rows: Optional[Tensor]) -> Optional[Tensor]:
        """The sources of rows, by default all.

        Returns:
            int64 ``[R']``; ``None`` if the rows are those of all sources in order, equally many of
            each
        """
        if rows is None:
            return None if self._is_even else self.of_row
        return rows if self.of_row is None else self.of_row[rows]

    def read(self, layer: int, sources: Optional[Tensor]) -> tuple[Tensor, Tensor]:
        """The keys and values of sources, from :meth:`sources_of`: ``[R', L, E]`` each.

        For ``None``, they are those of all sources, ``[S, L, E]``.
        """
        found = self._data[layer]
        keys, values = found if sources is None else found.index_select(1, sources)
        return keys, values

    def mask(self, sources: Optional[Tensor]) -> Tensor:
        """The mask of the same sources: ``[R', 1, L]``, or ``[S, 1, L]``."""
        return (self._mask if sources is None else self._mask[sources])[:, None]

    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``."""
        if isinstance(rows, Tensor) and self._on_host is None:
            used = rows
        else:
            of_rows = np.array(on_host(rows), dtype=np.int64)
            if self._on_host is not None:
                of_rows = self._on_host[of_rows]
            if len(set(of_rows.tolist())) == self.n_sources:
                self._set_of_row(of_rows)
                return
            sources, of_row = np.unique(of_rows, return_inverse=True)
            self._set_of_row(of_row)
            used = torch.from_numpy(sources).to(self._mask.device)
        self._data, self._mask = self._data.index_select(2, used), self._mask[used]

    def _set_of_row(self, of_row: np.ndarray) -> None:
        n = of_row.max(initial=0) + 1
        self._is_even = np.array_equal(of_row, np.arange(n).repeat(len(of_row) // n))
        self._on_host, self.of_row = of_row, torch.from_numpy(of_row).to(self._mask.device)
