"""The best tokens of each row of scores, or of all rows of a beam, by compiled code."""

import ctypes
from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library

# Two threads take longer to begin than one to look through so few scores.
FEW_SCORES = 30_000
# With so many beams for each thread, none is left waiting for long where a beam has one thread.
MANY_BEAMS = 4


class Beams(NamedTuple):
    """Rows that compete with each other: those of a beam, for each of S beams."""

    rows: np.ndarray  # int64 [R], beam by beam; among equals those that stand first are better
    starts: np.ndarray  # int64 [S + 1], where the rows of each beam begin, and the end
    totals: np.ndarray  # float32 [R], what each row, by its number, adds to its tokens' scores


class TopK:
    """The softmax, what options demand, and the best tokens, in one reading of the scores.

    A result depends neither on the other rows or beams nor on the number of threads. The time for
    each score does not grow with n. Several threads may call it at once.
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
        self._options = structures.TopK(
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
        self,
        scores: Tensor,
        n: int,
        normalize: bool,
        only: Optional[np.ndarray] = None,
        no_end: Optional[np.ndarray] = None,
    ) -> Tuple[Tensor, Tensor]:
        """
        Args:
            scores: float32 ``[R, V]`` on a CPU. NaN is no probability.
            n: at most V.
            normalize: the scores are logits, to become log-probabilities.
            only: int64 ``[R]``, the one token that is possible in a row, or -1 (default: any).
            no_end: bool ``[R]``, the rows where EOS is not possible (default: none).

        Returns:
            scores float32 and tokens int64, ``[R, n]``, best first, among equals those of smaller
            numbers; a score of ``-inf`` means that there is none.

        Raises:
            IndexError: for an only token, or a penalized one, of V or more.
            ValueError: for n below 1 or above V, and for numbers of other kinds.
        """
        task = structures.TopK.from_buffer_copy(self._options)
        tokens, best = self._run(task, scores, scores.size(0), n, normalize, only, no_end)
        return best, tokens

    def of_beams(
        self,
        scores: Tensor,
        n: int,
        normalize: bool,
        beams: Beams,
        only: Optional[np.ndarray] = None,
        no_end: Optional[np.ndarray] = None,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """The n best of all extensions of each beam; other arguments as above.

        Args:
            n: any number.

        Returns:
            scores float32 with the rows' totals, rows int64 and tokens int64, ``[S, n]``, best
            first. A score of ``-inf`` means that there is none, and the rest then means nothing.
        """
        task = structures.TopK.from_buffer_copy(self._options)
        n_rows, n_beams = scores.size(0), beams.starts.size - 1
        task.rows = _address(beams.rows, n_rows, "rows", torch.int64)
        task.starts = _address(beams.starts, n_beams + 1, "starts", torch.int64)
        task.totals = _address(beams.totals, n_rows, "totals", torch.float32)
        rows = torch.empty(n_beams, n, dtype=torch.long)
        task.origins = rows.data_ptr()
        tokens, best = self._run(task, scores, n_beams, n, normalize, only, no_end)
        return best, rows, tokens

    def _run(
        self,
        task: structures.TopK,
        scores: Tensor,
        n_beams: int,
        n: int,
        normalize: bool,
        only: Optional[np.ndarray],
        no_end: Optional[np.ndarray],
    ) -> Tuple[Tensor, Tensor]:
        """Tokens and scores, ``[S, n]`` each."""
        scores = scores.contiguous()
        n_rows, n_types = task.n_rows, task.n_types = scores.shape
        best = scores.new_empty(n_beams, n)
        tokens = torch.empty(n_beams, n, dtype=torch.long)
        few = n_rows == 1 or n_rows * n_types < FEW_SCORES
        task.n_best, task.normalize, task.n_beams = n, normalize, n_beams
        task.n_threads = n_threads = 1 if few else self._library.n_threads
        task.n_parts = n_threads if task.rows and n_beams < MANY_BEAMS * n_threads else 1
        task.only = _address(only, n_rows, "only", torch.int64)
        task.no_end = _address(no_end, n_rows, "no_end", torch.bool)
        task.scores = problems.address(scores, n_rows * n_types, "scores", torch.float32)
        address = ctypes.byref(task)
        scratch = torch.empty(self._library.top_k_scratch_size(address), dtype=torch.uint8)
        task.best, task.tokens = best.data_ptr(), tokens.data_ptr()
        task.scratch = scratch.data_ptr()
        problems.check(self._library.top_k(address))
        return tokens, best


def _address(numbers: Optional[np.ndarray], n: int, what: str, dtype: torch.dtype) -> Optional[int]:
    if numbers is None:
        return None
    return problems.address(torch.from_numpy(numbers), n, what, dtype)
