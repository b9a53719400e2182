"""A process that translates chunks one after another, and writes or returns them.

A worker sends 0 when its model is loaded, then the number of lines that it has translated since the
last message. For each chunk it finally sends a :class:`~.chunks.Translated`, ``None`` if it has
written the chunk, or an exception.
"""

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Optional, Protocol

from ..processes.cores import pin
from .chunks import Chunk, ChunkStore, Translated
from .output_lines import UntranslatedLine

MENDABLE = "fix this and run the same command again to continue"
# Seconds between messages about progress, which cost the coordinator time.
BETWEEN_REPORTS = 0.5
# The signals that end a command.
ENDING = (signal.SIGINT, signal.SIGTERM)

Progress = Callable[[int], Any]


class ChunkTranslator(Protocol):
    """The part of a worker that depends on the model."""

    def prepare(self) -> None:
        """Prepare the engine's weights, so that forked processes share them."""

    def use_threads(self, n_threads: int) -> None:
        """Set the number of threads of a decoding step."""

    def translate(self, chunk: Chunk, progress: Progress) -> Translated:
        """Translate a chunk.

        Args:
            progress: called with the number of newly translated lines.
        """


# Takes the number of a GPU, or ``None``, and returns a translator.
Load = Callable[[Optional[int]], ChunkTranslator]


@dataclass(frozen=True)
class Place:
    """The processors or the GPU of a worker.

    Attributes:
        n_threads: the number of threads per decoding step.
        cores: the processors to which it is pinned; ``None`` for any.
        device: the number of its GPU; ``None`` for none.
    """

    n_threads: int = 1
    cores: Optional[Sequence[int]] = None
    device: Optional[int] = None


def serve(
    connection: Connection,
    inherited: Sequence[Connection],
    load: Load,
    place: Place,
    store: Optional[ChunkStore],
) -> None:
    """Translate chunks until the coordinator closes the connection or ends.

    Args:
        connection: to the coordinator.
        inherited: the other workers' connections in a forked process, to be closed. While one is
            open, its worker does not notice the end of the coordinator.
        store: where the worker writes its chunks; ``None`` to send them back.
    """
    # Ctrl-C at a terminal interrupts all processes of the command; the coordinator ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    for other in inherited:
        other.close()
    try:
        pin(place.cores)
        translator = load(place.device)
        translator.use_threads(place.n_threads)
    except (ValueError, OSError, ImportError) as error:
        _send(connection, OSError(str(error)))
        return
    _send(connection, 0)
    while True:
        try:
            chunk = connection.recv()
        except (EOFError, OSError):
            return
        _send(connection, _outcome(chunk, translator, connection, store))


def _outcome(
    chunk: Chunk,
    translator: ChunkTranslator,
    connection: Connection,
    store: Optional[ChunkStore],
) -> Any:
    """Translate a chunk and return the message for the coordinator."""
    try:
        translated = translator.translate(chunk, _reporting(connection))
        if store is None:
            return translated
        store.write(chunk, translated)
        return None
    except UntranslatedLine as error:
        return error
    except Exception as error:
        names_a_flag = isinstance(error, ValueError) and str(error).startswith("--")
        if names_a_flag or isinstance(error, OSError):
            return OSError(f"{error}; {MENDABLE}")
        return RuntimeError(f"in a worker:\n{traceback.format_exc()}")


def _reporting(connection: Connection) -> Progress:
    """A function that sends the number of translated lines at limited intervals."""
    n_lines, last = 0, time.monotonic()

    def count(n: int) -> None:
        nonlocal n_lines, last
        n_lines += n
        if n_lines and time.monotonic() - last >= BETWEEN_REPORTS:
            _send(connection, n_lines)
            n_lines, last = 0, time.monotonic()

    return count


def _send(connection: Connection, message: Any) -> None:
    """Send a message; without a coordinator, it is dropped and the worker finishes its chunk."""
    with contextlib.suppress(OSError):
        connection.send(message)
