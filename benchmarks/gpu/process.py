"""The process in which rows are measured."""

import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import TimeoutError as Timeout
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from typing import Any, Optional

from benchmarks.compare.processes import new_process


class Lost(Exception):
    """A call did not end in its process, which is gone; the message gives the reason."""


class TooLong(Lost):
    """A call took longer than it may."""


class Replaceable:
    """A process that runs one function at a time, and is replaced once it is of no more use.

    An error of a kernel makes CUDA useless for the whole process that it occurred in.
    """

    def __init__(self) -> None:
        self._process: Optional[ProcessPoolExecutor] = None
        self._pid = 0

    def call(self, seconds: float, function: Callable, *args: Any) -> Any:
        """The result of a function.

        Raises:
            Lost: if the process dies.
            TooLong: if it does not end within ``seconds``.
        """
        try:
            if self._process is None:
                self._process = new_process()
                self._pid = self._process.submit(os.getpid).result()
            return self._process.submit(function, *args).result(seconds)
        except Timeout as error:
            self.end()
            raise TooLong(f"did not end within {seconds:.0f} s") from error
        except BrokenProcessPool as error:
            self.end()
            raise Lost("the process has died; is there enough memory?") from error

    def end(self) -> None:
        """End the process; the next call starts another one."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._process.shutdown()
            self._process = None
