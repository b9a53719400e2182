"""Rows laid out by the sources that they belong to."""

from typing import Optional

import torch
from torch import Tensor


class SourceGrid:
    """Rows laid out as ``[sources, rows of a source]``, so that sources' keys are never copied.

    Cross-attention has no causal mask: the rows of one source are just more queries to it.
    """

    def __init__(self, n_sources: int, width: int, row_source: Optional[Tensor]) -> None:
        self._n_sources = n_sources
        self._width = width
        self._row_source = row_source
        self._slot = None if row_source is None else rank_within(row_source)

    @classmethod
    def of(cls, row_source: Tensor, n_sources: int) -> "SourceGrid":
        n_rows = row_source.numel()
        width = n_rows // n_sources
        in_order = torch.arange(n_rows, device=row_source.device) // max(width, 1)
        if n_rows == n_sources * width and torch.equal(row_source, in_order):
            return cls(n_sources, width, None)
        return cls(n_sources, int(row_source.bincount().max()), row_source)

    def spread(self, queries: Tensor) -> Tensor:
        """``[R, T, H, D]`` to ``[S, G * T, H, D]``; slots without a row hold anything."""
        n_new, n_heads, head_dim = queries.shape[1:]
        if self._row_source is not None:
            grid = queries.new_empty(self._n_sources, self._width, n_new, n_heads, head_dim)
            grid[self._row_source, self._slot] = queries
            queries = grid
        return queries.reshape(self._n_sources, self._width * n_new, n_heads, head_dim)

    def collect(self, context: Tensor, n_new: int) -> Tensor:
        """``[S, G * T, C]`` back to ``[R, T, C]``."""
        grid = context.view(self._n_sources, self._width, n_new, -1)
        if self._row_source is None:
            return grid.flatten(0, 1)
        return grid[self._row_source, self._slot]


def rank_within(groups: Tensor) -> Tensor:
    """For each element, how many earlier elements are of the same group: int64 ``[R]``."""
    by_group, order = groups.sort(stable=True)
    first_of_group = torch.searchsorted(by_group, by_group)
    rank = torch.empty_like(groups)
    rank[order] = torch.arange(groups.numel(), device=groups.device) - first_of_group
    return rank
