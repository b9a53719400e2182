"""Scratch memory that grows when a call of compiled code asks for more."""

import ctypes
from typing import Callable

import torch

from . import problems


class Scratch:
    """Calls one function with one task, whose scratch memory stays between calls."""

    def __init__(
        self, task: ctypes.Structure, run: Callable[..., int], size_of: Callable[..., int]
    ) -> None:
        """
        Args:
            task: a structure with ``scratch`` and ``scratch_size``, in floats.
            run: returns a problem. A call that is refused has done nothing.
            size_of: returns how many floats the task needs.
        """
        self._task = task  # whose memory is read
        self._address = ctypes.c_void_p(ctypes.addressof(task))
        self._run, self._size_of = run, size_of
        self._memory = torch.empty(0)

    def run(self) -> None:
        """Run the task.

        Raises:
            IndexError, ValueError: for what the function returns.
        """
        problem = self._run(self._address)
        if problem == problems.OUT_OF_SCRATCH:
            self.reserve()
            problem = self._run(self._address)
        problems.check(problem)

    def reserve(self) -> None:
        """Make room for the task."""
        size = self._size_of(self._address)
        if size > self._memory.numel():
            self._memory = torch.empty(size)
            self._task.scratch = self._memory.data_ptr()
            self._task.scratch_size = self._memory.numel()
