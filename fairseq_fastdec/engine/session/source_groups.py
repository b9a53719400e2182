"""The sources' keys, to which the rows of a session attend, as torch reads them."""

from typing import Optional

from ..network.attention import padding_mask
from ..network.counting import extremes
from ..network.forward import SourceKeys
from ..network.source_grid import SourceGrid
from .caches import SessionCaches
from .row_table import RowTable


class SourceGroups:
    """:class:`SourceKeys` of the rows of now, made once a grouping of the rows."""

    def __init__(self, caches: SessionCaches) -> None:
        self._caches = caches
        self._source_keys: Optional[SourceKeys] = None
        self._grouping: Optional[int] = None

    def keys(self, rows: RowTable) -> SourceKeys:
        """The sources' keys for the rows that are not paused."""
        if self._source_keys is None or self._grouping != rows.grouping:
            self._source_keys = self._group(rows)
            self._grouping = rows.grouping
        return self._source_keys

    def _group(self, rows: RowTable) -> SourceKeys:
        # Rows come and go at the end, and their sources with them: those of paused rows lie before.
        first = int(rows.row_source.min()) if rows.n_paused else 0
        lengths = rows.source_lengths[first:]
        shortest, longest = extremes(lengths)
        cache, mask = self._caches.sources, None
        if shortest < longest:
            mask = padding_mask(lengths, longest, cache.dtype)
        grid = SourceGrid.of(rows.row_source - first, lengths.numel())
        return SourceKeys(cache, slice(first, rows.n_sources), longest, mask, grid)
