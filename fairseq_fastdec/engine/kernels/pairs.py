"""The best pairs of tokens that continue each beam, by compiled code."""

import ctypes
from typing import NamedTuple, Optional

import numpy as np
import torch

from . import loading, problems, structures
from .loading import Library
from .top_k import Best

# A left and a right token behind an entry of a beam: their "tokens" and "scores", the "column" of
# the entry, and the "total" with both; a total of -inf means that there is no such pair.
PAIR = np.dtype(structures.TokenPair)


class ChosenPairs(NamedTuple):
    """The pairs that continue S beams, ``PAIR [S, W]``.

    Attributes:
        best: the W best, best first.
        going_on: the W best without an end. The first that continues an entry has its column.
        some_end: whether a pair among the best holds an end.
        some_lost: whether there is a beam of which no pair goes on.
        moves: whether a row of what goes on was another row before.
    """

    best: np.ndarray
    going_on: np.ndarray
    some_end: bool
    some_lost: bool
    moves: bool


class DoubleTopK:
    """DOUBLETOPK of Imamura and Sumita 2020 (section 3.2); for one thread at a time."""

    def __init__(self, library: Library, width: int, end: int) -> None:
        """
        Args:
            width: W.
            end: the token that ends decoding, on either side.
        """
        self._library = library
        self._task = structures.DoubleTopK(width=width, end=end)
        self._address = ctypes.byref(self._task)
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._found: Optional[Best] = None

    @classmethod
    def of(cls, width: int, end: int) -> Optional["DoubleTopK"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, width, end)

    def place(self, next_tokens: np.ndarray, totals: np.ndarray, origins: np.ndarray) -> None:
        """Note where the rows' arrays are, which every call reads and writes.

        Args:
            next_tokens: int64 ``[N, 2]``, what the next step is fed.
            totals: float32 ``[N, 2]``, the scores so far, which left tokens add to; and 0.
            origins: int64 ``[N]``, the row that each row was before.

        Raises:
            ValueError: for arrays of other dtypes or sizes, or that lie otherwise.
        """
        task, n = self._task, origins.size
        task.next_tokens = _address(next_tokens, 2 * n, "tokens")
        task.totals = _address(totals, 2 * n, "totals", torch.float32)
        task.origins = _address(origins, n, "origins")
        task.most_rows = n
        self._arrays = (next_tokens, totals, origins)

    def __call__(self, found: Best, n_beams: int, n_entries: int) -> ChosenPairs:
        """
        Args:
            found: ``[S + S * W', n]``: first each beam's best left tokens, with the rows' totals,
                then each row's best right tokens. Left rows have even numbers, and right ones the
                next.
            n_beams, n_entries: S and W'.

        Raises:
            IndexError: for rows that are not there, and more of them than :meth:`place` said.
            ValueError: for arrays of other sizes.
        """
        task = self._task
        if found is not self._found:
            self._take(found)
        if found.scores.shape[0] != n_beams * (1 + n_entries):
            raise ValueError(f"{len(found.scores)} lists of tokens of {n_beams} x {n_entries} rows")
        task.n_beams, task.n_entries = n_beams, n_entries
        best, going_on = (np.empty((n_beams, task.width), dtype=PAIR) for _ in range(2))
        task.best, task.going_on = best.ctypes.data, going_on.ctypes.data
        problems.check(self._library.double_top_k(self._address))
        return ChosenPairs(best, going_on, task.n_ends > 0, task.n_lost > 0, bool(task.moves))

    def _take(self, found: Best) -> None:
        task, (n_lists, task.n_best) = self._task, found.scores.shape
        n = n_lists * task.n_best
        task.scores = _address(found.scores, n, "scores", torch.float32)
        task.rows = _address(found.rows, n, "rows")
        task.tokens = _address(found.tokens, n, "tokens")
        needed = self._library.double_top_k_scratch_size(self._address)
        if needed > task.scratch_size:
            self._scratch = torch.empty(needed, dtype=torch.uint8)
            task.scratch, task.scratch_size = self._scratch.data_ptr(), needed
        self._found = found


def _address(numbers: np.ndarray, n: int, what: str, dtype: torch.dtype = torch.int64) -> int:
    return problems.address(torch.from_numpy(numbers), n, what, dtype)
