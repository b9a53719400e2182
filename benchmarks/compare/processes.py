"""Separate processes for methods, and for work whose memory does not count for a method."""

import gc
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize
from typing import Any, Optional

from fairseq_fastdec.processes.streams import handling_interrupts

# In seconds. A process that does not arrive within this time must have died.
PATIENCE = 60
# A fork server imports torch and fairseq once for all processes. It stays without threads.
_context: BaseContext
if "forkserver" in multiprocessing.get_all_start_methods():
    _context = multiprocessing.get_context("forkserver")
    _context.set_forkserver_preload([f"{__package__}.worker"])
else:
    _context = multiprocessing.get_context("spawn")


class Turns:
    """Distributes numbers to processes: each takes the next one when it is free."""

    def __init__(self, n_processes: int) -> None:
        self._line = _context.Barrier(n_processes)
        self._left = _context.Value("q", 0)

    def take(self, n: int) -> Iterator[int]:
        """Yield this process's share of the numbers below ``n``, in descending order.

        fairseq sorts batches by length, so the short ones come last, and all processes end at about
        the same time.

        Raises:
            threading.BrokenBarrierError: if another process does not arrive.
        """
        if self._line.wait(PATIENCE) == 0:
            self._left.value = n
        self._line.wait(PATIENCE)
        while True:
            with self._left.get_lock():
                self._left.value -= 1
                number = self._left.value
            if number < 0:
                return
            yield number


# The turns of this process's team; None for a single process.
turns: Optional[Turns] = None
# The next process of the team; None in the last one.
_next: Optional[ProcessPoolExecutor] = None


def new_process() -> ProcessPoolExecutor:
    """Start a process that runs one function at a time, and inherits only modules."""
    return _started(_context, None)


def new_team(n_processes: int) -> ProcessPoolExecutor:
    """Start the first process of a team; :func:`begin_team` in it starts the others."""
    return _started(_context, Turns(n_processes) if n_processes > 1 else None)


def begin_team(n_others: int, begin: Callable, *args: Any) -> None:
    """Start the other processes of this team; each begins with ``begin(*args)``.

    If the system supports fork, they share the memory of this process, which must not have used
    several threads. Each process starts the next one, since a process that has started one has
    threads, and must not be forked again.
    """
    global _next
    _next = None
    if n_others == 0:
        return
    # Python's garbage collector would write to shared memory.
    gc.collect()
    gc.freeze()
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    following = _started(context, turns)
    following.submit(_continue_team, n_others - 1, begin, *args).result()
    # At its exit, a process joins its children before executors shut down. Shut them down earlier,
    # and before their queues are closed, which has priority 10.
    Finalize(None, following.shutdown, exitpriority=20)
    _next = following


def _continue_team(n_others: int, begin: Callable, *args: Any) -> None:
    begin_team(n_others, begin, *args)
    begin(*args)


def in_team(function: Callable, *args: Any) -> list[Any]:
    """Run a function in this and all following processes at once; this one's result is first."""
    rest = _next and _next.submit(in_team, function, *args)
    first = function(*args)
    return [first, *(rest.result() if rest else ())]


def _started(context: BaseContext, shared: Optional[Turns]) -> ProcessPoolExecutor:
    if context.get_start_method() == "forkserver":
        with handling_interrupts(signal.SIG_IGN):
            forkserver.ensure_running()
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(shared,))


def _begin(shared: Optional[Turns]) -> None:
    global turns
    turns = shared
    # Ctrl-C also reaches this process, and its parent prints the line for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Otherwise fairseq logs its whole configuration for every method.
    logging.disable(logging.INFO)
