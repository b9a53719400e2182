"""Rows grow by the tokens that a search keeps of them, by compiled code."""

import ctypes
from operator import is_
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library


def place_outputs(task: structures.Append, tokens: Tensor, scores: Tensor, eos: int) -> None:
    """Say where outputs go: int64 and float32 ``[B, W]``. Who calls this keeps them."""
    task.n_sentences, task.width = tokens.shape
    task.eos = eos
    task.tokens = problems.address(tokens, tokens.numel(), "tokens")
    task.scores = problems.address(scores, tokens.numel(), "scores", torch.float32)


def place_rows(
    task: structures.Append, sentence: Tensor, lengths: Tensor, finished: Tensor
) -> None:
    """Say which rows there are, as :meth:`RowEnds.bind` has them. Who calls this keeps them."""
    task.n_rows = n_rows = sentence.numel()
    task.sentence = problems.address(sentence, n_rows, "sentences")
    task.lengths = problems.address(lengths, n_rows, "lengths of rows")
    task.finished = problems.address(finished, n_rows, "finished", torch.bool)


class RowEnds:
    """Writes tokens at the ends of rows, up to an end of sentence. For one thread at a time."""

    def __init__(self, library: Library, tokens: Tensor, scores: Tensor, eos: int) -> None:
        """
        Args:
            tokens: int64 ``[B, W]``, to write to; scores: float32 ``[B, W]``.
        """
        self._library = library
        self._task = structures.Append()
        place_outputs(self._task, tokens, scores, eos)
        self._memory = (tokens, scores)
        self._address = ctypes.c_void_p(ctypes.addressof(self._task))
        self._rows: Optional[Tuple[Tensor, Tensor, Tensor]] = None

    @classmethod
    def of(cls, tokens: Tensor, scores: Tensor, eos: int) -> Optional["RowEnds"]:
        """Arguments as those of the class; ``None`` elsewhere than on a CPU, or where nothing was
        compiled.
        """
        library = loading.library() if tokens.device.type == "cpu" else None
        return None if library is None else cls(library, tokens, scores, eos)

    def bind(self, sentence: Tensor, lengths: Tensor, finished: Tensor) -> None:
        """Say which rows there are now.

        Args:
            sentence: int64 ``[R]``, where each row is written to.
            lengths: int64 ``[R]``, how many tokens each has; every append adds to it.
            finished: bool ``[R]``, set where a row ends.
        """
        rows = (sentence, lengths, finished)
        if self._rows is None or not all(map(is_, rows, self._rows)):
            place_rows(self._task, *rows)
            self._rows = rows

    def append(self, tokens: Tensor, scores: Tensor, n: Union[int, Tensor]) -> Tuple[int, Tensor]:
        """Extend each row by the first n of its tokens, up to and including the first EOS.

        Args:
            tokens: int64 ``[R, T]``; scores: float32 ``[R, T]``; n: one number or int64 ``[R]``.

        Returns:
            how many rows have ended, and how many tokens each row took, int64 ``[R]``.

        Raises:
            IndexError: for rows that are not there, or longer than W.
            ValueError: for tensors of other sizes or dtypes.
        """
        task, (n_rows, n_new) = self._task, tokens.shape
        tokens, scores = tokens.contiguous(), scores.contiguous()
        n_all = task.n_rows * n_new
        taken = torch.empty(n_rows, dtype=torch.long)
        task.n_new = n_new
        task.new_tokens = problems.address(tokens, n_all, "tokens")
        task.new_scores = problems.address(scores, n_all, "scores", torch.float32)
        if isinstance(n, int):
            task.counts, task.count = None, n
        else:
            task.counts = problems.address(n, n_rows, "numbers of tokens")
        task.taken = taken.data_ptr()
        n_ended = self._library.append(self._address)
        problems.check(-min(n_ended, 0))
        return n_ended, taken
