"""Pools of workers that translate chunks, and the pool of this machine."""

import contextlib
import gc
import logging
import multiprocessing
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Optional, Union

from ..processes import cores
from .chunks import Chunk, ChunkStore, Translated
from .worker import ENDING, Load, Place, Progress, serve

logger = logging.getLogger(__name__)

# The command fails after this many deaths of workers with one chunk, or before the first chunk.
MOST_DEATHS = 5
# Seconds for workers without a chunk to exit before they are killed.
PATIENCE = 10

ChunkOutcome = Union[Translated, None, Exception]
ChunkResult = tuple[Optional[Chunk], ChunkOutcome]


class WorkersDie(ValueError):
    """Workers die repeatedly; the message names the lines."""


class ChunkPool(ABC):
    """Workers that translate one chunk each at a time. A context manager that ends them on exit."""

    def __init__(self, progress: Progress) -> None:
        """
        Args:
            progress: called with the number of newly translated lines, negative for lines that are
                lost.
        """
        self._progress = progress
        self._deaths: Counter[Optional[int]] = Counter()

    def __enter__(self) -> "ChunkPool":
        return self

    @abstractmethod
    def __exit__(self, error: Optional[type], *_: Any) -> None:
        """End the workers; those without a chunk may exit by themselves."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether :meth:`submit` may be called, since a worker is free."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether chunks are in progress."""

    @abstractmethod
    def submit(self, chunk: Chunk) -> None:
        """Pass a chunk to a worker, and to another one if it dies."""

    @abstractmethod
    def results(self, seconds: Optional[float] = None) -> list[ChunkResult]:
        """Wait for results.

        Args:
            seconds: the timeout (default: none).

        Returns:
            finished chunks, each with its translation, ``None`` if this is in the store, or an
            exception. An exception without a chunk concerns the workers themselves.
        """

    def _death(self, chunk: Optional[Chunk], reason: str) -> Optional[WorkersDie]:
        """Count a death, and return an error if there were too many."""
        key = None if chunk is None else chunk.number
        self._deaths[key] += 1
        if self._deaths[key] < MOST_DEATHS:
            return None
        if chunk is None:
            return WorkersDie(
                f"workers end before they translate a chunk ({reason}); see the messages above"
            )
        return WorkersDie(
            f"lines {chunk.first + 1} to {chunk.first + chunk.n_lines} of the input: {MOST_DEATHS} "
            f"workers ended while translating them ({reason}); if memory is the cause, use fewer "
            "--workers or a smaller --batch-size; the same command continues from here"
        )


@dataclass
class _Worker:
    """A worker: its place, its process and its chunk."""

    place: Place
    process: Any = None
    connection: Any = None
    chunk: Optional[Chunk] = None
    n_done: int = 0
    is_ready: bool = False


class LocalPool(ChunkPool):
    """Processes of this machine."""

    def __init__(
        self,
        places: Sequence[Place],
        load: Load,
        store: Optional[ChunkStore],
        progress: Progress,
        forks: bool,
    ) -> None:
        """
        Args:
            places: the place of each worker.
            load: returns the translator of a worker. Forked workers share the memory of this
                process; others receive a copy of the function.
            store: where workers write their chunks; ``None`` to return them.
            progress: see :class:`ChunkPool`.
            forks: whether workers are forked from this process. It must not have computed in
                several threads, nor on a GPU.
        """
        super().__init__(progress)
        self._load, self._store, self._forks = load, store, forks
        self._workers = [_Worker(place) for place in places]
        for worker in self._workers:
            self._start(worker)

    def __exit__(self, error: Optional[type], *_: Any) -> None:
        for worker in self._workers:
            if error is None:
                worker.connection.close()
            else:
                worker.process.terminate()
        for worker in self._workers:
            _end(worker)

    @property
    def has_room(self) -> bool:
        return any(worker.is_ready and worker.chunk is None for worker in self._workers)

    @property
    def is_busy(self) -> bool:
        return any(worker.chunk is not None for worker in self._workers)

    def submit(self, chunk: Chunk) -> None:
        worker = next(idle for idle in self._workers if idle.is_ready and idle.chunk is None)
        worker.chunk = chunk
        _send_chunk(worker)

    def results(
        self, seconds: Optional[float] = None, others: Sequence[Connection] = ()
    ) -> list[ChunkResult]:
        """See :class:`ChunkPool`.

        Args:
            others: further connections; the call also returns when one has a message.
        """
        workers = {worker.connection: worker for worker in self._workers}
        ready = wait([*workers, *others], seconds)
        return [
            pair
            for connection in ready
            if connection in workers
            for pair in self._received(workers[connection])
        ]

    def _received(self, worker: _Worker) -> list[ChunkResult]:
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            return self._replaced(worker)
        if isinstance(message, int):
            if not worker.is_ready:
                worker.is_ready = True
                _send_chunk(worker)
            self._count(worker, message)
            return []
        return [self._finished(worker, message)]

    def _count(self, worker: _Worker, n_lines: int) -> None:
        worker.n_done += n_lines
        self._progress(n_lines)

    def _finished(self, worker: _Worker, outcome: ChunkOutcome) -> ChunkResult:
        chunk, worker.chunk = worker.chunk, None
        if chunk is not None:
            self._progress(chunk.n_lines - worker.n_done)
        worker.n_done = 0
        return chunk, outcome

    def _replaced(self, worker: _Worker) -> list[ChunkResult]:
        """Replace a dead process by a new one with the same chunk."""
        _end(worker)
        reason = _cause_of_death(worker.process.exitcode)
        chunk, again = worker.chunk, ""
        found: list[ChunkResult] = []
        self._count(worker, -worker.n_done)
        if chunk is not None and self._store is not None and self._store.has(chunk):
            # The worker died after it wrote the chunk, before its message.
            found.append(self._finished(worker, None))
        elif error := self._death(chunk, reason):
            found.append((chunk, error))
        elif chunk is not None:
            again = f"; chunk {chunk.number} again"
        logger.warning("a worker ended (%s) and was replaced%s", reason, again)
        self._start(worker)
        return found

    def _start(self, worker: _Worker) -> None:
        context = multiprocessing.get_context("fork" if self._forks else "spawn")
        here, there = context.Pipe()
        worker.connection, worker.is_ready = here, False
        connections = [own.connection for own in self._workers if own.connection is not None]
        inherited = [own for own in connections if self._forks and not own.closed]
        worker.process = context.Process(  # type: ignore[attr-defined]
            target=serve,
            args=(there, inherited, self._load, worker.place, self._store),
            daemon=True,
        )
        with _without_signals():
            worker.process.start()
        there.close()


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """Block signals in this context, and in a process that is forked in it.

    The handlers of this process raise exceptions. In a forked process that has not begun to serve,
    these would continue this process's work there. :func:`.worker.serve` unblocks the signals.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send_chunk(worker: _Worker) -> None:
    if worker.chunk is not None:
        with contextlib.suppress(OSError):  # the worker has died and will be replaced
            worker.connection.send(worker.chunk)


def _end(worker: _Worker) -> None:
    """Wait for a process to exit, and kill it after a while."""
    worker.process.join(PATIENCE)
    worker.process.kill()
    worker.process.join()
    worker.connection.close()


def _cause_of_death(code: Optional[int]) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def places(n_workers: Optional[int], n_threads: int, n_gpus: int) -> list[Place]:
    """The places of this machine's workers.

    Args:
        n_workers: ``None`` for one per GPU, or as many as the cores allow.
        n_gpus: the number of GPUs, which are shared if there are more workers; 0 to use the cores.
    """
    if n_gpus:
        return [Place(n_threads, None, own % n_gpus) for own in range(n_workers or n_gpus)]
    n_workers = n_workers or max(1, cores.n_usable(cores.usable_cores()) // n_threads)
    return [Place(n_threads, cores.cores_of(own, n_workers, n_threads)) for own in range(n_workers)]


def forks(places: Sequence[Place]) -> bool:
    """Whether workers are forked, after the model is loaded."""
    return places[0].device is None


def start_workers(
    load: Load, places: Sequence[Place], store: Optional[ChunkStore], progress: Progress
) -> LocalPool:
    """Start workers of this machine.

    On a CPU, this process loads the models, prepares the weights and forks the workers, which share
    its memory. Workers on GPUs load the models themselves.

    Args:
        load, places, store, progress: see :class:`LocalPool`.

    Raises:
        OSError, ValueError: if the models cannot be loaded.
    """
    if not forks(places):
        return LocalPool(places, load, store, progress, forks=False)
    translator = load(None)
    translator.prepare()
    # Python's garbage collector would write to the shared memory.
    gc.collect()
    gc.freeze()
    return LocalPool(places, lambda _: translator, store, progress, forks=True)
