"""Processes of one's own: for a method, or for what is not to count as a method's memory."""

import logging
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Iterator, List, Optional

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


def new_process() -> ProcessPoolExecutor:
    """Another process that runs one function at a time; it begins with nothing of this one's."""
    return _started(None)


def new_team(n_processes: int) -> List[ProcessPoolExecutor]:
    """Processes that find the same :data:`turns`, if they are several."""
    shared = Turns(n_processes) if n_processes > 1 else None
    return [_started(shared) for _ in range(n_processes)]


def _started(shared: Optional[Turns]) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(shared,),
    )


def _begin(shared: Optional[Turns]) -> None:
    global turns
    turns = shared
    # fairseq logs its whole configuration otherwise, for every method.
    logging.disable(logging.INFO)
