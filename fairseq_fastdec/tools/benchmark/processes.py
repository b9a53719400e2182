"""Processes of one's own: for a method, or for what is not to count as a method's memory."""

import gc
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.util import Finalize
from typing import Any, Optional

# Seconds. All have been told to begin, so that whoever is later than this has died.
PATIENCE = 60


class Turns:
    """Hands out numbers to processes that begin together; each takes the next when it is free."""

    def __init__(self, n_processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._line = context.Barrier(n_processes)
        self._left = context.Value("q", 0)

    def take(self, n: int) -> Iterator[int]:
        """This process's share of the numbers below ``n``, the greatest first.

        fairseq's batches are in the order of their lengths, so that the short ones come last, and
        no process is long alone at the end.

        Raises:
            threading.BrokenBarrierError: if another process does not come.
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


# The turns of the team that this process belongs to; None where the process is alone.
turns: Optional[Turns] = None
# The next process of the team; None in the last.
_next: Optional[ProcessPoolExecutor] = None


def new_process() -> ProcessPoolExecutor:
    """Another process that runs one function at a time; it begins with nothing of this one's."""
    return _started("spawn", None)


def new_team(n_processes: int) -> ProcessPoolExecutor:
    """The first process of a team, which starts the others when it calls :func:`begin_team`."""
    return _started("spawn", Turns(n_processes) if n_processes > 1 else None)


def begin_team(n_others: int, begin: Callable, *args: Any) -> None:
    """Start the rest of this process's team; each begins with ``begin(*args)``.

    Where the system can fork, they share all that this process has in memory. It must not have
    computed in several threads. Each process starts the next, because who has started one has
    threads that wait for it.
    """
    global _next
    _next = None
    if n_others == 0:
        return
    # Python's collector would write to what the processes share.
    gc.collect()
    gc.freeze()
    following = _started("fork" if hasattr(os, "fork") else "spawn", turns)
    following.submit(_continue_team, n_others - 1, begin, *args).result()
    # A process that ends waits for those it has started before executors are told. This comes
    # before the end of their queues, whose priority is 10.
    Finalize(None, following.shutdown, exitpriority=20)
    _next = following


def _continue_team(n_others: int, begin: Callable, *args: Any) -> None:
    begin_team(n_others, begin, *args)
    begin(*args)


def in_team(function: Callable, *args: Any) -> list[Any]:
    """Run a function in this process and in all that follow, at once; this one's result first."""
    rest = _next and _next.submit(in_team, function, *args)
    own = function(*args)
    return [own, *(rest.result() if rest else ())]


def _started(method: str, shared: Optional[Turns]) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context(method),
        initializer=_begin,
        initargs=(shared,),
    )


def _begin(shared: Optional[Turns]) -> None:
    global turns
    turns = shared
    # fairseq logs its whole configuration otherwise, for every method.
    logging.disable(logging.INFO)
