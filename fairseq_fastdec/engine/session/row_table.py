"""The rows of a session: the length of each, and the source sentence that it belongs to."""

from typing import Optional, Union

import torch
from torch import Tensor

from ..network.counting import extremes, first_numbers
from .compaction import compaction


class RowTable:
    """The rows of a session and their sources.

    This table is the only owner of that state. :meth:`clear`, :meth:`add`, :meth:`select`,
    :meth:`commit` and :meth:`pause` change it; everybody else reads the attributes.

    The first rows can be paused. Rows are numbered without the paused ones, from 0; the caches'
    slots are numbered with them, so row r has slot ``n_paused + r``. Sources are numbered by their
    slots. A source leaves with its last row.

    Attributes:
        lengths: how many tokens each row has committed, int64 ``[R]``.
        row_source: the source of each row, int64 ``[R]``.
        source_lengths: how many tokens each source has, int64 ``[S]``, paused rows' included.
        n_rows: R.
        n_paused: how many rows are paused.
        shortest, longest: the extremes of ``lengths``, known to the host; 0 where R is 0.
        longest_paused: the greatest length of a paused row; 0 where there is none.
        version: a number that changes whenever one of the tensors above is another one.
        grouping: a number that changes whenever rows come to belong to the sources in another way.
            What a runner derives from that can be kept as long as the number stays.
    """

    def __init__(self, device: torch.device) -> None:
        self.version = self.grouping = 0
        self._nothing = torch.zeros(0, dtype=torch.long, device=device)
        self.clear(device)

    @property
    def lengths(self) -> Tensor:
        """See the class."""
        return self._lengths

    @lengths.setter
    def lengths(self, lengths: Tensor) -> None:
        self._lengths = lengths
        self._added_to = None
        self.version += 1

    @property
    def n_slots(self) -> int:
        """The number of rows, paused ones included."""
        return self.n_paused + self.n_rows

    @property
    def n_sources(self) -> int:
        """S."""
        return self.source_lengths.numel()

    @property
    def longest_source(self) -> int:
        """The greatest length of a source, 0 where there is none; the host waits for it."""
        return extremes(self.source_lengths)[1]

    @property
    def lengths_of_slots(self) -> Tensor:
        """The lengths of all rows, paused ones included: int64 ``[n_slots]``."""
        return torch.cat([self._paused_lengths, self.lengths]) if self.n_paused else self.lengths

    @property
    def source_of_slots(self) -> Tensor:
        """The sources of all rows, paused ones included: int64 ``[n_slots]``."""
        return (
            torch.cat([self._paused_source, self.row_source]) if self.n_paused else self.row_source
        )

    def clear(self, device: torch.device) -> None:
        """Forget all rows and sources; the next ones live on ``device``."""
        if self._nothing.device != device:
            self._nothing = torch.zeros(0, dtype=torch.long, device=device)
        self.lengths = self.row_source = self.source_lengths = self._nothing
        self._paused_lengths = self._paused_source = self._nothing
        self.n_rows = self.n_paused = 0
        self.shortest = self.longest = self.longest_paused = 0
        self.grouping += 1

    def add(self, source_lengths: Tensor) -> None:
        """Append sources of these lengths, int64 ``[B]``, and an empty row for each."""
        n_new = source_lengths.numel()
        if n_new == 0:
            return
        new = first_numbers(n_new, source_lengths.device)
        lengths = torch.zeros_like(new)
        if self.n_sources:
            new = torch.cat([self.row_source, self.n_sources + new])
            source_lengths = torch.cat([self.source_lengths, source_lengths])
            lengths = torch.cat([self.lengths, lengths])
        self.source_lengths, self.row_source, self.lengths = source_lengths, new, lengths
        self.n_rows += n_new
        self.shortest = 0
        self.grouping += 1

    def commit(self, n: Union[int, Tensor]) -> None:
        """Make every row n tokens longer, the same number for all rows or int64 ``[R]``.

        The lengths stay in the same memory, so that a runner need not look for them again.
        """
        if not isinstance(n, int):
            self._lengths += n
            self.shortest, self.longest = extremes(self._lengths)
            return
        if self._added_to is None:
            # The same memory: to add to a few numbers takes torch longer than numpy.
            self._added_to = self._lengths.numpy() if self._lengths.is_cpu else self._lengths
        self._added_to += n
        if self.n_rows:
            self.shortest += n
            self.longest += n

    def extend_to(self, shortest: int, longest: int) -> None:
        """Take note that the rows were made longer where their lengths lie, up to these."""
        self.shortest, self.longest = shortest, longest

    def select(self, rows: Tensor) -> Optional[Tensor]:
        """Row i becomes what row ``rows[i]`` was; sources without rows leave.

        Args:
            rows: int64 ``[R']``; rows may be dropped, repeated and reordered.

        Returns:
            if sources have left, the old number of each source that stays, int64 ``[S']``.
        """
        row_source = self.row_source[rows]
        same_sources = torch.equal(row_source, self.row_source)
        n_before, self.n_rows = self.n_rows, rows.numel()
        if self.n_rows == 0 or self.shortest < self.longest:
            self.lengths = self.lengths[rows]
            self.shortest, self.longest = extremes(self.lengths)
        elif self.n_rows != n_before:
            self.lengths = self.lengths.new_full(rows.shape, self.longest)
        if same_sources:
            return None
        self.row_source = row_source
        self.version += 1
        self.grouping += 1
        return self._drop_sources_without_rows()

    def pause(self, n_rows: int) -> None:
        """Let the first ``n_rows`` of all rows rest, and all others go on.

        Raises:
            ValueError: if there are fewer rows.
        """
        if n_rows == self.n_paused:
            return
        n_slots = self.n_slots
        if not 0 <= n_rows <= n_slots:
            raise ValueError(f"pause({n_rows}): the session has {n_slots} rows")
        lengths, row_source = self.lengths_of_slots, self.source_of_slots
        self._paused_lengths, self.lengths = lengths[:n_rows], lengths[n_rows:]
        self._paused_source, self.row_source = row_source[:n_rows], row_source[n_rows:]
        self.n_paused, self.n_rows = n_rows, n_slots - n_rows
        self.shortest, self.longest = extremes(self.lengths)
        self.longest_paused = extremes(self._paused_lengths)[1]
        self.grouping += 1

    def _drop_sources_without_rows(self) -> Optional[Tensor]:
        keep = torch.zeros_like(self.source_lengths, dtype=torch.bool)
        keep[self.row_source] = True
        keep[self._paused_source] = True
        if bool(keep.all()):
            return None
        order = compaction(keep)
        self.source_lengths = self.source_lengths[order]
        new_number = torch.empty_like(keep, dtype=torch.long)
        new_number[order] = torch.arange(order.numel(), device=order.device)
        self.row_source = new_number[self.row_source]
        self._paused_source = new_number[self._paused_source]
        return order
