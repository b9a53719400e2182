"""The best tokens of each row of scores, or of all rows of a beam, by compiled code."""

import ctypes
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library

# Two threads take longer to begin than one to look through so few scores.
FEW_SCORES = 30_000
# With so many beams for each thread, none is left waiting for long where a beam has one thread.
MANY_BEAMS = 4


class Beams:
    """Rows that compete with each other: those of a beam, for each of S beams.

    The arrays may be longer than what is in use, and their numbers may change: their memory stays
    the same.

    Attributes:
        rows: int64 ``[R]``, beam by beam; among equals those that stand first are better.
        starts: int64 ``[S + 1]``, where the rows of each beam begin, and the end.
        totals: float32 ``[R]``, what each row, by its number, adds to its tokens' scores.
        n_beams, n_rows: S and R.
        addresses: of ``rows``, ``starts`` and ``totals``.
    """

    def __init__(self, rows: np.ndarray, starts: np.ndarray, totals: np.ndarray) -> None:
        """
        Raises:
            ValueError: for arrays of other dtypes or sizes, or that lie otherwise.
        """
        self.rows, self.starts, self.totals = rows, starts, totals
        self.n_beams, self.n_rows = starts.size - 1, totals.size
        self.addresses = (
            _address(rows, self.n_rows, "rows", torch.int64),
            _address(starts, self.n_beams + 1, "starts", torch.int64),
            _address(totals, self.n_rows, "totals", torch.float32),
        )


class Limits(NamedTuple):
    """The tokens that are possible in R rows; ``None`` where a limit holds for no row."""

    only: Optional[np.ndarray] = None  # int64 [R], the one token that is possible, or -1: any
    no_end: Optional[np.ndarray] = None  # bool [R], the rows where EOS is not possible
    # bool [R], the rows where EOS alone is possible, even if its probability is 0 or NaN
    has_to_end: Optional[np.ndarray] = None
    forbidden: Optional[np.ndarray] = None  # int64 [R, M], tokens that are not possible


NO_LIMITS = Limits()


class Best(NamedTuple):
    """The best extensions of S beams, best first, ``[S, n]``.

    A score of ``-inf`` means that there is none, and the rest then means nothing.
    """

    scores: np.ndarray  # float32, with the rows' totals
    rows: np.ndarray  # int64
    tokens: np.ndarray  # int64


class TopK:
    """The softmax, what options demand, and the best tokens, in one reading of the scores.

    A result depends neither on the other rows or beams nor on the number of threads. The time for
    each score does not grow with n. Several threads may call it at once.

    Attributes:
        structure: the options, as other structures take them.
    """

    def __init__(
        self, library: Library, never: Sequence[int], eos: int, unk: int, penalty: float
    ) -> None:
        """
        Args:
            never: tokens that are not possible.
            penalty: what ``unk`` loses after the softmax.
        """
        self._library = library
        self._never = (ctypes.c_int64 * len(never))(*never)
        self.structure = structures.TopK(
            threads=library.address_of_threads(),
            never=ctypes.addressof(self._never),
            n_never=len(never),
            eos=eos,
            # Without a penalty it is a token like others.
            penalized=unk if penalty else -1,
            penalty=penalty,
        )

    @classmethod
    def of(cls, never: Sequence[int], eos: int, unk: int, penalty: float) -> Optional["TopK"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, never, eos, unk, penalty)

    def __call__(
        self, scores: Tensor, n: int, normalize: bool, limits: Limits = NO_LIMITS
    ) -> Tuple[Tensor, Tensor]:
        """
        Args:
            scores: float32 ``[R, V]`` on a CPU. NaN is no probability.
            n: at most V.
            normalize: the scores are logits, to become log-probabilities.

        Returns:
            scores float32 and tokens int64, ``[R, n]``, best first, among equals those of smaller
            numbers; a score of ``-inf`` means that there is none.

        Raises:
            IndexError: for an only token, or a penalized one, of V or more.
            ValueError: for n below 1 or above V, and for numbers of other kinds.
        """
        call = _Call(self._library, self.structure)
        n_rows = scores.size(0)
        call.reserve(n_rows, n)
        call.run([scores], n_rows, n, n, normalize, limits)
        best = call.best
        return torch.from_numpy(best.scores), torch.from_numpy(best.tokens)

    def for_beams(self) -> "BeamTopK":
        """The same for the rows of beams."""
        return BeamTopK(self._library, self.structure)


class BeamTopK:
    """The best extensions of beams; for one thread at a time, as results share their memory."""

    def __init__(self, library: Library, options: structures.TopK) -> None:
        self._call = _Call(library, options)

    def __call__(
        self,
        members: Sequence[Tensor],
        n: int,
        n_per_row: int,
        normalize: bool,
        beams: Beams,
        limits: Limits = NO_LIMITS,
    ) -> Best:
        """The n best of all extensions of each beam; other arguments as for :class:`TopK`.

        Args:
            members: scores of the models, ``[R, V]`` each, whose probabilities are averaged.
            n: any number.
            n_per_row: the most of them that may extend the same row.

        Returns:
            in memory that the next call uses again; with the same S and n, the same object.
        """
        call = self._call
        task = call.task
        task.rows, task.starts, task.totals = beams.addresses
        if members[0].size(0) != beams.n_rows:
            raise ValueError(
                f"scores of {members[0].size(0)} rows, where beams have {beams.n_rows}"
            )
        call.reserve(beams.n_beams, n)
        task.origins = call.address_of_rows
        call.run(members, beams.n_beams, n, min(n, n_per_row), normalize, limits)
        return call.best


class _Call:
    """A task, and the memory for its results."""

    def __init__(self, library: Library, options: structures.TopK) -> None:
        self.task = structures.TopK.from_buffer_copy(options)
        self._library = library
        self._address = ctypes.byref(self.task)
        self._shape = (0, 0)
        self._members = (ctypes.c_void_p * 1)()
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self.address_of_rows = 0

    def reserve(self, n_beams: int, n: int) -> None:
        """Make room for results ``[S, n]``."""
        if self._shape == (n_beams, n):
            return
        scores = torch.empty(n_beams, n)
        rows, tokens = (torch.empty(n_beams, n, dtype=torch.long) for _ in range(2))
        self.best = Best(scores.numpy(), rows.numpy(), tokens.numpy())
        self.task.best, self.task.tokens = scores.data_ptr(), tokens.data_ptr()
        self.address_of_rows = rows.data_ptr()
        self._shape = n_beams, n

    def run(
        self,
        members: Sequence[Tensor],
        n_beams: int,
        n: int,
        n_per_row: int,
        normalize: bool,
        limits: Limits,
    ) -> None:
        """Fill :attr:`best`."""
        task = self.task
        members = [scores.contiguous() for scores in members]
        n_rows, n_types = task.n_rows, task.n_types = members[0].shape
        self._take_members(members, n_rows * n_types)
        few = n_rows == 1 or n_rows * n_types * len(members) < FEW_SCORES
        task.n_best, task.n_per_row = n, n_per_row
        task.normalize, task.n_beams = normalize, n_beams
        task.n_threads = n_threads = 1 if few else self._library.n_threads
        task.n_parts = n_threads if task.rows and n_beams < MANY_BEAMS * n_threads else 1
        task.only = _address(limits.only, n_rows, "only", torch.int64)
        task.no_end = _address(limits.no_end, n_rows, "no_end", torch.bool)
        task.has_to_end = _address(limits.has_to_end, n_rows, "has_to_end", torch.bool)
        n_forbidden = 0 if limits.forbidden is None else limits.forbidden.shape[1]
        task.forbidden = _address(
            limits.forbidden, n_rows * n_forbidden, "forbidden tokens", torch.int64
        )
        task.n_forbidden = n_forbidden
        needed = self._library.top_k_scratch_size(self._address)
        if needed > self._scratch.numel():
            self._scratch = torch.empty(2 * needed, dtype=torch.uint8)
        task.scratch = self._scratch.data_ptr()
        problems.check(self._library.top_k(self._address))

    def _take_members(self, members: List[Tensor], n: int) -> None:
        if len(members) != len(self._members):
            self._members = (ctypes.c_void_p * len(members))()
        for index, scores in enumerate(members):
            self._members[index] = problems.address(scores, n, "scores", torch.float32)
        self.task.scores, self.task.n_members = ctypes.addressof(self._members), len(members)


def _address(numbers: Optional[np.ndarray], n: int, what: str, dtype: torch.dtype) -> Optional[int]:
    if numbers is None:
        return None
    return problems.address(torch.from_numpy(numbers), n, what, dtype)
