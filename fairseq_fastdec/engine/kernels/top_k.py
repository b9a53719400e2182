"""The best tokens of each row of scores, or of all rows of a beam, by compiled code."""

import ctypes
from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from . import problems, structures
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


class Chooser:
    """The softmax, what options demand, and the best tokens, in one reading of the scores.

    A result depends neither on the other rows or beams nor on the number of threads. The time for
    each score does not grow with n.
    """

    def __init__(
        self, compiled: Library, never: Sequence[int], eos: int, unk: int, penalty: float
    ) -> None:
        """
        Args:
            never: tokens that are not possible.
            penalty: what ``unk`` loses after the softmax.
        """
        self._library = compiled
        self._never = (ctypes.c_int64 * len(never))(*never)
        self._choice = structures.Choice(
            threads=compiled.address_of_threads(),
            never=ctypes.addressof(self._never),
            n_never=len(never),
            eos=eos,
            # Without a penalty it is a token like others.
            penalized=unk if penalty else -1,
            penalty=penalty,
        )
        self._address = ctypes.c_void_p(ctypes.addressof(self._choice))

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
        tokens, _, best = self._choose(scores, scores.size(0), n, normalize, only, no_end)
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
        choice = self._choice
        n_rows, n_beams = scores.size(0), beams.starts.size - 1
        choice.rows = _address(beams.rows, n_rows, "rows", torch.int64)
        choice.starts = _address(beams.starts, n_beams + 1, "starts", torch.int64)
        choice.totals = _address(beams.totals, n_rows, "totals", torch.float32)
        try:
            tokens, rows, best = self._choose(
                scores, n_beams, n, normalize, only, no_end, in_beams=True
            )
        finally:
            choice.rows = choice.starts = choice.totals = choice.origins = None
        return best, rows, tokens

    def _choose(
        self,
        scores: Tensor,
        n_beams: int,
        n: int,
        normalize: bool,
        only: Optional[np.ndarray],
        no_end: Optional[np.ndarray],
        in_beams: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor], Tensor]:
        """Tokens, their rows where these are ``in_beams``, and scores, ``[S, n]`` each."""
        scores = scores.contiguous()
        choice = self._choice
        n_rows, n_types = choice.n_rows, choice.n_types = scores.shape
        best = scores.new_empty(n_beams, n)
        tokens = torch.empty(n_beams, n, dtype=torch.long)
        origins = torch.empty_like(tokens) if in_beams else None
        few = n_rows == 1 or n_rows * n_types < FEW_SCORES
        choice.n_best, choice.normalize, choice.n_beams = n, normalize, n_beams
        choice.n_threads = n_threads = 1 if few else self._library.n_threads
        choice.n_parts = n_threads if in_beams and n_beams < MANY_BEAMS * n_threads else 1
        choice.only = _address(only, n_rows, "only", torch.int64)
        choice.no_end = _address(no_end, n_rows, "no_end", torch.bool)
        choice.scores = problems.address(scores, n_rows * n_types, "scores", torch.float32)
        scratch = torch.empty(self._library.size_of_choice(self._address), dtype=torch.uint8)
        choice.best, choice.tokens = best.data_ptr(), tokens.data_ptr()
        choice.scratch = scratch.data_ptr()
        choice.origins = None if origins is None else origins.data_ptr()
        problems.check(self._library.choose(self._address))
        return tokens, origins, best


def _address(numbers: Optional[np.ndarray], n: int, what: str, dtype: torch.dtype) -> Optional[int]:
    if numbers is None:
        return None
    return problems.address(torch.from_numpy(numbers), n, what, dtype)
