"""The best tokens of each row of scores, by compiled code."""

import ctypes
from typing import Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from . import problems, structures
from .loading import Library

# Two threads take longer to begin than one to look through so few scores.
FEW_SCORES = 30_000


class Chooser:
    """The softmax, what options demand, and the best tokens, in one reading of the scores.

    A row's result depends neither on the other rows nor on the number of threads.
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
        scores = scores.contiguous()
        choice = self._choice
        n_rows, n_types = choice.n_rows, choice.n_types = scores.shape
        best = scores.new_empty(n_rows, n)
        tokens = torch.empty(n_rows, n, dtype=torch.long)
        few = n_rows == 1 or n_rows * n_types < FEW_SCORES
        choice.n_best, choice.normalize = n, normalize
        choice.n_threads = 1 if few else self._library.n_threads
        choice.only = _address(only, n_rows, "only", torch.int64)
        choice.no_end = _address(no_end, n_rows, "no_end", torch.bool)
        choice.scores = problems.address(scores, n_rows * n_types, "scores", torch.float32)
        choice.best, choice.tokens = best.data_ptr(), tokens.data_ptr()
        problems.check(self._library.choose(self._address))
        return best, tokens


def _address(numbers: Optional[np.ndarray], n: int, what: str, dtype: torch.dtype) -> Optional[int]:
    if numbers is None:
        return None
    return problems.address(torch.from_numpy(numbers), n, what, dtype)
