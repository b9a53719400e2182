"""A machine of a Ray cluster, which receives files, starts workers and translates chunks.

A Ray actor's process has many threads and must not be forked. So it starts another process, which
loads the model, prepares the weights once, and forks the workers.
"""

import contextlib
import functools
import logging
import multiprocessing
import os
import queue
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Union

from ..processes.noise import results_only
from ..translating.command_line import version
from .chunks import Chunk
from .directory_lock import locked
from .model import CorpusModel
from .output_lines import OutputRules
from .pool import ChunkOutcome, places, start_workers

# Seconds for the process with the workers to exit before it is killed.
PATIENCE = 10
PREFIX = "fastdec-node-"
# Seconds until a process must have locked the directory that it created.
TO_LOCK = 60


class NodeJob(NamedTuple):
    """The work of a machine.

    Attributes:
        model: the model, with file names relative to the machine's directory of files.
        rules: the format of the output.
        n_workers, n_threads: the workers of the machine, and the threads of each.
        version: the version of this package on the machine of the command.
    """

    model: CorpusModel
    rules: OutputRules
    n_workers: int
    n_threads: int
    version: str


class Machine:
    """The actor: after :meth:`start`, calls of :meth:`translate` may come from several threads."""

    def __init__(self, fetch: Callable[[Any], Any]) -> None:
        """
        Args:
            fetch: returns a piece of a file, for its reference in :meth:`start`.
        """
        self._fetch = fetch
        self._kept = contextlib.ExitStack()
        self._answers: dict[int, queue.SimpleQueue[ChunkOutcome]] = {}
        self._sending = threading.Lock()
        self._connection: Any = None

    def start(self, job: NodeJob, files: dict[str, Sequence[Any]]) -> Union[int, str]:
        """Receive the files, and start the workers.

        Args:
            files: references to the pieces of each file, by its relative path.

        Returns:
            the number of workers, or the reason why the machine cannot be used
        """
        if job.version != version():
            return (
                f"has fairseq_fastdec {version()}, but the command has {job.version}; install the "
                "same version"
            )
        try:
            directory = self._kept.enter_context(_own_directory())
            for place, pieces in files.items():
                self._write(directory / place, pieces)
        except (OSError, ValueError) as error:
            return str(error)
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        process = context.Process(target=serve, args=(there, job, directory))
        process.start()
        there.close()
        self._kept.callback(self._end, process)
        try:
            started = self._connection.recv()
        except (EOFError, OSError):
            process.join()
            return f"the process with the model ended ({process.exitcode})"
        threading.Thread(target=self._receive, args=(process,), daemon=True).start()
        return started

    def translate(self, chunk: Chunk) -> ChunkOutcome:
        """Translate a chunk; see :meth:`.pool.ChunkPool.results` for the outcome."""
        answer = self._answers[chunk.number] = queue.SimpleQueue()
        with self._sending:
            self._connection.send(chunk)
        return answer.get()

    def close(self) -> None:
        """End the workers, and remove the files."""
        self._kept.close()

    def _receive(self, process: Any) -> None:
        """Pass the outcomes of chunks to the calls that wait for them."""
        with contextlib.suppress(EOFError, OSError):
            # Workers of an ended process may keep the connection open for a while.
            while self._connection in wait([self._connection, process.sentinel]):
                number, outcome = self._connection.recv()
                numbers = list(self._answers) if number is None else [number]
                for own in numbers:
                    self._answers.pop(own).put(outcome)
        # The workers have ended and pending calls have no answer: exit, so that the command sees
        # the machine as lost.
        if self._answers:
            self._kept.close()
            os._exit(1)

    def _write(self, path: Path, pieces: Sequence[Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.writelines(map(self._fetch, pieces))

    def _end(self, process: Any) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(None)
        process.join(PATIENCE)
        process.kill()
        process.join()


@results_only(logging.WARNING)
def serve(connection: Connection, job: NodeJob, directory: Path) -> None:
    """Translate the chunks of a :class:`Machine` until it sends ``None`` or exits.

    Args:
        directory: the directory with the files.
    """
    try:
        os.chdir(directory)
        own_places = places(job.n_workers, job.n_threads, job.model.n_gpus())
        load = functools.partial(job.model.translator, job.rules)
        pool = start_workers(load, own_places, None, lambda n_lines: None)
    except (ValueError, OSError, ImportError) as error:
        connection.send(str(error))
        return
    with contextlib.suppress(EOFError, OSError), pool:
        connection.send(len(own_places))
        waiting: deque[Chunk] = deque()
        while True:
            for chunk, outcome in pool.results(others=[connection]):
                connection.send((None if chunk is None else chunk.number, outcome))
            if connection.poll():
                received = connection.recv()
                if received is None:
                    raise EOFError  # ends the workers immediately
                waiting.append(received)
            while waiting and pool.has_room:
                pool.submit(waiting.popleft())


@contextlib.contextmanager
def _own_directory() -> Iterator[Path]:
    """Create a directory for the files of this process, and remove those of killed processes."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(left)
    temporary = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with temporary as directory, locked(Path(directory)):
        yield Path(directory)


def _remove_if_left(directory: Path) -> None:
    try:
        if time.time() - directory.stat().st_mtime < TO_LOCK:
            return
        with locked(directory):
            shutil.rmtree(directory, ignore_errors=True)
    except (OSError, ValueError):  # used by another process, or owned by another user
        pass
