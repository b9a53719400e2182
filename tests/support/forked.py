"""Runs commands in processes forked from the test process, without importing torch again."""

import faulthandler
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional

import torch

# A fork saves the imports. On a GPU, the threads of autograd allow none.
METHOD = "forkserver" if torch.cuda.is_available() else "fork"
FORK = multiprocessing.get_context("fork")


def exit_status(function: Callable[[], None], seconds: float = 120) -> int:
    """Call a function in a forked process: 0 if it returns, 1 if it raises.

    A child of ``os.fork`` that raises would go on with the tests of its parent.

    Raises:
        TimeoutError: if the process runs longer; it is killed.
    """
    process = FORK.Process(target=function)
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"process {process.pid} is still running")
    return process.exitcode


class Forked:
    """A process that runs a command, and exits like a script of the command."""

    def __init__(
        self,
        main: Callable[[Sequence[str]], None],
        arguments: Sequence[str],
        printed: Path,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            main: called with the arguments.
            printed: the file for the output of the process.
            prepare: called in the process before ``main``.
        """
        self._printed = printed
        self._process = FORK.Process(target=_run, args=(main, arguments, printed, prepare))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> Optional[int]:
        """The exit status, negative for a signal; ``None`` while the process runs."""
        return self._process.exitcode

    def wait(self, seconds: float = 120) -> int:
        """Wait for the end, and return the exit status.

        Raises:
            TimeoutError: if the process runs longer; with what it does.
        """
        deadline = time.monotonic() + seconds
        # Process.join would also wait for workers, which inherit its sentinel.
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGUSR1)
                time.sleep(1)
                raise TimeoutError(f"process {self.pid} is still running\n{self.printed()}")
            time.sleep(0.005)
        return self.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    def printed(self) -> str:
        """The text on its standard output and standard error so far."""
        return self._printed.read_text(encoding="utf-8")


def _run(
    main: Callable[[Sequence[str]], None],
    arguments: Sequence[str],
    printed: Path,
    prepare: Callable[[], None],
) -> None:
    # pytest-xdist's processes ignore this signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    faulthandler.register(signal.SIGUSR1, file)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", encoding="utf-8", buffering=1) for number in (1, 2)
    )
    prepare()
    main(arguments)
