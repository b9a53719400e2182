"""A machine of a cluster: it gets files, starts workers, and translates chunks.

The process that the cluster starts has many threads, and must not be forked. So it starts another,
which loads the models, prepares the weights once, and forks the machine's workers.
"""

import collections
import contextlib
import functools
import logging
import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Union

from ....noise import results_only
from ...command_line import version
from ...corpus import uses_cuda
from ..chunks import Chunk
from ..directory_lock import locked
from ..machine import limit_batches, start_workers
from ..output_lines import OutputRules
from ..pool import Pool, WorkersDie
from ..worker import ChunkTranslator, Failed, Progress
from .baggage import Baggage, unpacked

# Seconds after which a machine tells how far it is, whether or not a chunk is done.
BETWEEN_REPORTS = 1.0
# Seconds that a machine's workers have to end by themselves.
PATIENCE = 10
PREFIX = "fastdec-node-"
# Seconds that a process may take to lock the directory that it has made.
TO_LOCK = 60


class Job(NamedTuple):
    """The work of a machine.

    Attributes:
        cfg: the configuration of fairseq-generate's command line.
        rules: of the output.
        baggage: the files that belong to the configuration.
        n_workers, n_threads: the machine's workers, and the threads of each.
        version: of this package where the chunks come from.
    """

    cfg: Any
    rules: OutputRules
    baggage: Baggage
    n_workers: int
    n_threads: int
    version: str


class Started(NamedTuple):
    """The machine has so many workers."""

    n_workers: int


Report = list[tuple[int, Any]]


class Machine:
    """The machine's side of a conversation: :meth:`start`, then one :meth:`exchange` after another.

    It never waits for long, so that whoever asks learns how far the machine is.
    """

    def __init__(self, fetch: Callable[[Any], Any]) -> None:
        """
        Args:
            fetch: gives a piece of a file, for whatever stands for it in :meth:`start`.
        """
        self._fetch = fetch
        self._kept = contextlib.ExitStack()
        self._process: Any = None
        self._connection: Any = None

    def start(self, job: Job, files: dict[str, Sequence[Any]]) -> Union[Started, Failed]:
        """Get the files, and start the workers.

        Args:
            files: what stands for the pieces of each file, by its place.
        """
        if job.version != version():
            return Failed(
                f"has fairseq_fastdec {version()}, and the command {job.version}; install the same"
            )
        try:
            directory = self._kept.enter_context(_own_directory())
            for place, pieces in files.items():
                self._write(directory / place, pieces)
        except (OSError, ValueError) as error:
            return Failed(str(error))
        cfg = unpacked(job.cfg, job.baggage, directory)
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        process = context.Process(target=serve, args=(there, job._replace(cfg=cfg)))
        process.start()
        there.close()
        self._process = process
        self._kept.callback(_end, process, self._connection)
        try:
            return self._answer()
        except (EOFError, OSError) as error:
            return Failed(str(error))

    def exchange(self, chunks: list[Chunk]) -> Report:
        """Take chunks, no more than there are workers without one, and tell what has happened.

        Returns:
            messages with the numbers of their chunks, as :meth:`..pool.Pool.messages` gives them.
            A :class:`~..pool.WorkersDie` is the last that comes; its number is -1.

        Raises:
            EOFError, OSError: if the process with the workers has ended.
        """
        self._connection.send(chunks)
        return self._answer()

    def close(self) -> None:
        """End the workers, and remove the files."""
        self._kept.close()

    def _answer(self) -> Any:
        # The workers keep the other end of the connection open for a while after the process.
        wait([self._connection, self._process.sentinel])
        if not self._connection.poll():
            self._process.join()
            raise EOFError(f"the process with the models ended ({self._process.exitcode})")
        return self._connection.recv()

    def _write(self, path: Path, pieces: Sequence[Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            for piece in pieces:
                file.write(self._fetch(piece))


@results_only(logging.WARNING)
def serve(connection: Connection, job: Job) -> None:
    """Translate the chunks that come from a :class:`Machine`, until that is gone."""
    try:
        limit_batches(job.cfg)
        pool = start_workers(
            functools.partial(ChunkTranslator, job.cfg, job.rules),
            uses_cuda(job.cfg),
            job.n_workers,
            job.n_threads,
            None,
        )
    except (ValueError, OSError, ImportError) as error:
        connection.send(Failed(str(error)))
        return
    with contextlib.suppress(EOFError, OSError), pool:  # when the coordinator is gone
        connection.send(Started(len(pool.process_ids())))
        _translate(connection, pool)


def _translate(connection: Connection, pool: Pool) -> None:
    waiting: collections.deque[Chunk] = collections.deque()
    while True:
        waiting += connection.recv()
        try:
            connection.send(_report(pool, waiting))
        except WorkersDie as error:
            connection.send([(-1, error)])
            return


def _report(pool: Pool, waiting: collections.deque[Chunk]) -> Report:
    """Wait until a chunk is finished or lost, or for a while; everything that happened."""
    progress: Counter = Counter()
    report: Report = []
    deadline = time.monotonic() + BETWEEN_REPORTS
    while not report and time.monotonic() < deadline:
        while waiting and pool.has_room:
            pool.submit(waiting.popleft())
        for chunk, message in pool.messages(deadline - time.monotonic()):
            if isinstance(message, Progress):
                progress[chunk.number] += message.n_lines
            else:
                report.append((chunk.number, message))
    return [*((number, Progress(n_lines)) for number, n_lines in progress.items()), *report]


@contextlib.contextmanager
def _own_directory() -> Iterator[Path]:
    """A directory for this process's files; those of processes that were killed are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(left)
    own = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with own as directory, locked(Path(directory)):
        yield Path(directory)


def _remove_if_left(directory: Path) -> None:
    try:
        if time.time() - directory.stat().st_mtime < TO_LOCK:
            return
        with locked(directory):
            shutil.rmtree(directory, ignore_errors=True)
    except (OSError, ValueError):  # somebody is at work there, or it is another user's
        pass


def _end(process: Any, connection: Connection) -> None:
    connection.close()
    process.join(PATIENCE)
    process.kill()
    process.join()
