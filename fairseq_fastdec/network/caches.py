"""Caches of the keys and values of rows and sources."""

import torch
from torch import Tensor
from torch.nn import functional as F


class RowCache:
    """Keys and values of the rows' tokens in all layers, ``[layers, 2, R, L, E]``.

    Row r has ``lengths[r]`` tokens. Data after them is undefined and never attended to, so reducing
    the length removes tokens. Only this object changes the rows' lengths.

    Attributes:
        lengths: int64 ``[R]``.
    """

    def __init__(self, n_layers: int, dim: int, like: Tensor) -> None:
        """
        Args:
            dim: E.
            like: a tensor with the dtype and device of the cache.
        """
        self._data = like.new_zeros(n_layers, 2, 0, 0, dim)
        self.lengths = torch.zeros(0, dtype=torch.long, device=like.device)

    @property
    def longest(self) -> int:
        """The largest length of a row; 0 without rows."""
        return int(self.lengths.max()) if self.lengths.numel() else 0

    def add(self, n: int) -> None:
        """Append n rows of length 0."""
        self.lengths = F.pad(self.lengths, (0, n))
        self._data = F.pad(self._data, (0, 0, 0, 0, 0, n))

    def reserve(self, length: int) -> None:
        """Ensure the capacity for rows of this length."""
        missing = length - self._data.size(3)
        if missing > 0:
            self._data = F.pad(self._data, (0, 0, 0, max(missing, self._data.size(3))))

    def write(self, layer: int, rows: Tensor, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store ``[R', T, E]`` at the ``places`` int64 ``[R', T]`` of ``rows`` int64 ``[R']``."""
        self._data[layer, 0][rows[:, None], places] = keys
        self._data[layer, 1][rows[:, None], places] = values

    def read(self, layer: int, rows: Tensor, n_keys: int) -> tuple[Tensor, Tensor]:
        """The first keys and values of ``rows``: ``[R', n_keys, E]`` each."""
        keys, values = self._data[layer, :, :, :n_keys].index_select(1, rows)
        return keys, values

    def keep(self, rows: Tensor, n: Tensor) -> None:
        """Extend rows by tokens whose keys and values have been written after them.

        Args:
            rows: int64 ``[R']``.
            n: int64 ``[R']``, the number of tokens that each row keeps.
        """
        self.lengths[rows] += n

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of row ``rows[i]``; int64 ``[R']``."""
        self._data = self._data.index_select(2, rows)
        self.lengths = self.lengths[rows]


class SourceCache:
    """Keys and values of the source sentences in all layers, ``[layers, 2, S, L, E]``.

    The rows of a source share them. A source is removed together with its last row.

    Attributes:
        of_row: int64 ``[R]``, the source of each row.
        visible: bool ``[S, L]``, false for padding.
    """

    def __init__(self, n_layers: int, dim: int, like: Tensor) -> None:
        self._data = like.new_zeros(n_layers, 2, 0, 0, dim)
        self.of_row = torch.zeros(0, dtype=torch.long, device=like.device)
        self.visible = torch.zeros(0, 0, dtype=torch.bool, device=like.device)

    def add(self, keys_values: Tensor, visible: Tensor) -> None:
        """Append sources, with one row each.

        Args:
            keys_values: ``[layers, 2, B, S, E]``.
            visible: bool ``[B, S]``, false for padding.
        """
        n_sources, length = self.visible.shape
        new = n_sources + torch.arange(visible.size(0), device=visible.device)
        self.of_row = torch.cat([self.of_row, new])
        width = max(length, visible.size(1))
        both = (self._data, keys_values)
        self._data = torch.cat([F.pad(x, (0, 0, 0, width - x.size(3))) for x in both], dim=2)
        both = (self.visible, visible)
        self.visible = torch.cat([F.pad(x, (0, width - x.size(1))) for x in both])

    def read(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The keys and values of rows' sources, ``[R', L, E]``, and their mask, ``[R', L]``."""
        sources = self.of_row[rows]
        keys, values = self._data[layer].index_select(1, sources)
        return keys, values, self.visible[sources]

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of row ``rows[i]``; int64 ``[R']``."""
        used, self.of_row = self.of_row[rows].unique(return_inverse=True)
        if used.numel() < self.visible.size(0):
            self._data, self.visible = self._data.index_select(2, used), self.visible[used]
