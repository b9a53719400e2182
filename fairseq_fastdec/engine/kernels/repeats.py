"""The tokens that would repeat an n-gram of a row, by compiled code."""

import ctypes
from typing import Optional

import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library

# There is room for so many forbidden tokens at first; few n-grams begin alike more often.
FIRST_ROOM = 4


class RepeatSearch:
    """Finds the tokens that followed a row's last ones before. For one thread at a time."""

    def __init__(self, library: Library, size: int, filler: int) -> None:
        """
        Args:
            size: the number of tokens of an n-gram, at least 2.
            filler: a token that stands where there are fewer than room.
        """
        self._library = library
        self._task = structures.Repeats(size=size, filler=filler)
        self._address = ctypes.byref(self._task)
        self._room = FIRST_ROOM

    @classmethod
    def of(cls, size: int, filler: int) -> Optional["RepeatSearch"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, size, filler)

    def __call__(
        self,
        tokens: Tensor,
        starts: Tensor,
        lengths: Tensor,
        before_first: int,
        block: Optional[Tensor] = None,
        parents: Optional[Tensor] = None,
        comes_next: bool = True,
    ) -> Optional[Tensor]:
        """
        Args:
            tokens: int64 ``[N]`` on a CPU, those of all rows.
            starts, lengths: int64 ``[R]``, where each row's own begin, and how many they are.
            before_first: the token before a row's first.
            block: int64 ``[R, T]``, new tokens, behind each of which tokens are looked for
                (default: behind the row's own last one).
            parents: int64 ``[R, T]``, which token of a tree each follows (default: chains).
            comes_next: whether the first of the new tokens follows the row's own; otherwise it is
                the row's own last one.

        Returns:
            int64 ``[R, T, M]``; ``None`` if there are none.

        Raises:
            IndexError: for rows that are not there.
            ValueError: for tensors of other sizes or dtypes, and for what is no tree.
        """
        task = self._task
        task.n_rows, task.n_new = lengths.numel(), 1 if block is None else block.size(1)
        n = task.n_rows * task.n_new
        task.before_first, task.first = before_first, int(not comes_next)
        task.n_tokens = tokens.numel()
        task.tokens = problems.address(tokens, task.n_tokens, "tokens")
        task.starts = problems.address(starts, task.n_rows, "starts")
        task.lengths = problems.address(lengths, task.n_rows, "lengths")
        task.block = None if block is None else problems.address(block, n, "block")
        task.parents = None if parents is None else problems.address(parents, n, "parents")
        forbidden = self._make_room(n)
        most = self._library.find_repeats(self._address)
        if most > self._room:
            self._room = most
            forbidden = self._make_room(n)
            most = self._library.find_repeats(self._address)
        problems.check(-min(most, 0))
        if most == 0:
            return None
        return forbidden.view(task.n_rows, task.n_new, self._room)

    def _make_room(self, n: int) -> Tensor:
        """Make room for what is forbidden after n tokens."""
        forbidden = torch.empty(n * self._room, dtype=torch.long)
        self._task.most, self._task.forbidden = self._room, forbidden.data_ptr()
        return forbidden
