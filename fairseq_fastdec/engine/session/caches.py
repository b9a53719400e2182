"""A session keeps the keys and values of its rows and sources between steps."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from ..network.cache import KeyValueCache
from ..network.weights import DecoderWeights
from .row_table import RowTable


class SessionCaches(NamedTuple):
    """The caches of a session, whose slots are numbered as in its row table.

    Attributes:
        rows: keys and values of the rows' own tokens, for self-attention.
        sources: keys and values of the source sentences, for cross-attention; the rows of a source
            share them.
    """

    rows: KeyValueCache
    sources: KeyValueCache

    @classmethod
    def make_for(
        cls,
        weights: DecoderWeights,
        dtype: torch.dtype,
        rounded_to: Optional[torch.dtype] = None,
    ) -> "SessionCaches":
        """Empty caches in the shape of a decoder; dtypes as those of :class:`KeyValueCache`."""
        shape = (len(weights.layers), weights.n_heads, weights.head_dim)
        kept = (dtype, weights.embed.device, rounded_to)
        rows, sources = (KeyValueCache(*shape, *kept) for _ in range(2))
        return cls(rows, sources)

    def reserve_step(self, table: RowTable, n_new: int) -> None:
        """Make room for ``n_new`` more tokens of each row that is not paused."""
        self.rows.reserve(table.n_slots, max(table.longest + n_new, table.longest_paused))

    def add_sources(self, table: RowTable, key_values: Tensor) -> None:
        """Store sources that the table is about to add.

        Args:
            key_values: ``[B, S, layers, 2, H, D]``.
        """
        n_new, longest = key_values.shape[:2]
        first = table.n_sources
        self.sources.reserve(first + n_new, max(longest, table.longest_source))
        self.sources.write_all(slice(first, first + n_new), key_values)

    def select_rows(self, table: RowTable, rows: Tensor) -> None:
        """Move rows that the table is about to select, int64 ``[R']``."""
        n_slots = table.n_paused + max(rows.numel(), table.n_rows)
        self.rows.reserve(n_slots, max(table.longest, table.longest_paused))
        self.rows.rearrange(rows, table.longest, first=table.n_paused)

    def select_sources(self, table: RowTable, order: Tensor) -> None:
        """Move the sources that are left in the table, as :meth:`RowTable.select` returned it."""
        self.sources.rearrange(order, table.longest_source)

    def keep_path(self, table: RowTable, path: Tensor) -> None:
        """Move the tokens of a tree at ``path``, int64 ``[R, D]``, to the rows' ends."""
        self.rows.gather(table.lengths, path, first=table.n_paused)
