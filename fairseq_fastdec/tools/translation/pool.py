"""Workers on one machine: each has a chunk at a time, and whoever dies is replaced."""

import contextlib
import functools
import logging
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any, NamedTuple, Optional

from .chunks import Chunk, ChunkStore
from .worker import ChunkTranslator, Place, Progress, Ready, serve

logger = logging.getLogger(__name__)

# Whoever dies so often over one chunk, or before the first, will always do so.
MOST_DEATHS = 5
# Seconds that workers without a chunk have to end by themselves.
PATIENCE = 10


class Lost(NamedTuple):
    """The worker died; its chunk is to be translated by another."""


class WorkersDie(ValueError):
    """Workers die again and again; the message says over which lines."""


class Pool:
    """Processes that translate chunks, one at a time each.

    As a context manager it lets them end, or ends them where an error comes.
    """

    def __init__(
        self,
        places: Sequence[Place],
        load: Callable[[], ChunkTranslator],
        store: Optional[ChunkStore],
        forks: bool,
    ) -> None:
        """
        Args:
            places: of each worker.
            load: gives each worker what translates. Forked workers share with this process what
                was in memory before; others call it after they have begun, and it travels there.
            store: see :func:`~.worker.serve`.
            forks: whether workers are forked from this process. It must not have computed in
                several threads then, nor on a GPU.
        """
        context = multiprocessing.get_context("fork" if forks else "spawn")
        start = functools.partial(_started, context, load, store, forks)
        self._deaths: Counter = Counter()
        self._workers = [_Worker(place, start) for place in places]
        for worker in self._workers:
            worker.start(self._connections())

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, error: Optional[type], *_: Any) -> None:
        if error is None:
            self._let_end()
        self._stop()

    @property
    def has_room(self) -> bool:
        """Whether a worker has nothing to do."""
        return any(worker.has_room for worker in self._workers)

    @property
    def all_are_ready(self) -> bool:
        """Whether all workers have loaded their models, for measurements."""
        return all(worker.is_ready for worker in self._workers)

    @property
    def is_busy(self) -> bool:
        """Whether a worker has a chunk."""
        return any(worker.chunk is not None for worker in self._workers)

    def submit(self, chunk: Chunk) -> None:
        """Give a worker that has nothing to do a chunk."""
        worker = next(worker for worker in self._workers if worker.has_room)
        worker.chunk, worker.n_done = chunk, 0
        with contextlib.suppress(OSError):  # the worker has died; messages() notices
            worker.connection.send(chunk)

    def messages(self, seconds: Optional[float] = None) -> list[tuple[Chunk, Any]]:
        """Wait for something to happen.

        Args:
            seconds: how long at most (default: as long as it takes).

        Returns:
            messages of workers, each with their chunk: those of :mod:`~.worker`, or :class:`Lost`.
            After a message that is no :class:`~.worker.Progress` the worker has no chunk.

        Raises:
            WorkersDie: if workers die again and again.
        """
        busy = {worker.connection: worker for worker in self._workers if worker.connection}
        found: list[tuple[Chunk, Any]] = []
        for ready in connection.wait(list(busy), seconds):
            found += self._received(busy[ready])
        return found

    def _let_end(self) -> None:
        """Give the workers time to end by themselves; they have nothing to do."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(PATIENCE)

    def _stop(self) -> None:
        """End the workers, whatever they do."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.end()

    def process_ids(self) -> list[int]:
        """The numbers of the processes, for measurements."""
        return [worker.process.pid for worker in self._workers]

    def _received(self, worker: "_Worker") -> list[tuple[Chunk, Any]]:
        chunk = worker.chunk
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            return self._replaced(worker)
        if isinstance(message, Ready):
            worker.is_ready = True
            return []
        if isinstance(message, Progress):
            worker.n_done += message.n_lines
        else:
            worker.chunk = None
        return [(chunk, message)]

    def _replaced(self, worker: "_Worker") -> list[tuple[Chunk, Any]]:
        """Start another process in a dead one's place."""
        worker.end()
        reason = _cause_of_death(worker.process.exitcode)
        chunk, n_done = worker.chunk, worker.n_done
        self._deaths[None if chunk is None else chunk.number] += 1
        if self._deaths[None if chunk is None else chunk.number] >= MOST_DEATHS:
            raise WorkersDie(told_of_deaths(chunk, reason))
        worker.start(self._connections())
        if chunk is None:
            logger.warning("a worker ended (%s) and was replaced", reason)
            return []
        logger.warning("a worker ended (%s) and was replaced; chunk %d again", reason, chunk.number)
        return [(chunk, Progress(-n_done)), (chunk, Lost())]

    def _connections(self) -> list[connection.Connection]:
        return [worker.connection for worker in self._workers if worker.connection is not None]


class _Worker:
    """A place, the process there, and its chunk."""

    def __init__(self, place: Place, start: Callable) -> None:
        self.process: Any = None
        self.connection: Optional[connection.Connection] = None
        self.chunk: Optional[Chunk] = None
        self.n_done = 0
        self.is_ready = False
        self._place = place
        self._start = start

    @property
    def has_room(self) -> bool:
        """Whether it waits for a chunk."""
        return self.is_ready and self.chunk is None

    def start(self, others: Sequence[connection.Connection]) -> None:
        """
        Args:
            others: this process's ends of the connections to other workers.
        """
        self.chunk, self.n_done, self.is_ready = None, 0, False
        self.connection, self.process = self._start(self._place, others)

    def end(self) -> None:
        """See to it that the process has ended, and close the connection to it."""
        self.process.join(PATIENCE)
        self.process.kill()
        self.process.join()
        self.connection.close()


def _started(
    context: Any,
    load: Callable[[], ChunkTranslator],
    store: Optional[ChunkStore],
    forks: bool,
    place: Place,
    others: Sequence[connection.Connection],
) -> tuple[connection.Connection, Any]:
    """A worker's process, and this process's end of the connection to it."""
    here, there = context.Pipe()
    inherited = [other for other in [*others, here] if forks and not other.closed]
    process = context.Process(
        target=serve, args=(there, inherited, load, place, store), daemon=True
    )
    process.start()
    there.close()
    return here, process


def _cause_of_death(code: Optional[int]) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def told_of_deaths(chunk: Optional[Chunk], reason: str) -> str:
    """The message where :data:`MOST_DEATHS` workers have ended over a chunk, or before the first.

    Args:
        reason: of the last.
    """
    if chunk is None:
        return f"workers end before they translate anything ({reason}); see what they said above"
    return (
        f"lines {chunk.first + 1} to {chunk.first + chunk.n_lines} of the input: {MOST_DEATHS} "
        f"workers ended over them ({reason}); if that is for lack of memory, use fewer --workers "
        "or a smaller --batch-size; the same command goes on from here"
    )
