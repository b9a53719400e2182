"""A process that translates chunks one after another, and writes or returns them.

A worker sends 0 when its model is loaded, then the number of lines that it has translated since the
last message. For each chunk it finally sends a :class:`~.chunks.Translated`, ``None`` if it has
written the chunk, or an exception.
"""

import contextlib
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Optional, Protocol

from ...processes.cores import pin
from .chunks import Chunk, ChunkStore, Translated
from .output_lines import NOT_UTF8, LineResult, OutputRules, UntranslatedLine

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


class LineTranslator(ABC):
    """The base class of translators of lines, which translates chunks with them."""

    def __init__(self, rules: OutputRules, seed: int) -> None:
        """
        Args:
            rules: the format of the output.
            seed: the random seed of the first chunk.
        """
        self._rules = rules
        self._seed = seed

    @abstractmethod
    def translate_lines(
        self,
        texts: Sequence[str],
        seed: int,
        progress: Progress,
        numbers: Optional[Sequence[int]] = None,
    ) -> list[LineResult]:
        """Translate lines.

        Args:
            numbers: the line numbers in the input, for drafts (default: from 0).
            texts: lines; surrounding white space is ignored. An empty line stays empty.
            seed: a random seed. The same lines with the same seed have the same translations.
            progress: called with the number of newly translated lines.

        Returns:
            the result of each line, in order
        """

    def translate(self, chunk: Chunk, progress: Progress) -> Translated:
        """See :class:`ChunkTranslator`.

        Raises:
            UntranslatedLine: with ``--on-error stop``.
        """
        texts = [_decoded(line) for line in chunk.lines]
        valid = [(text, chunk.first + i) for i, text in enumerate(texts) if text is not None]
        lines, numbers = [text for text, _ in valid], [number for _, number in valid]
        # Samples depend on the chunk, but not on earlier chunks.
        seed = self._seed + chunk.number
        results = iter(self.translate_lines(lines, seed, progress, numbers))
        return self._rules.render(
            chunk, [NOT_UTF8 if text is None else next(results) for text in texts]
        )


class CorpusModel(ABC):
    """The model and decoding options of a command line. It can be sent to other processes.

    Attributes:
        may_use_gpus: whether to decode on GPUs if a machine has them.
    """

    may_use_gpus: bool

    @abstractmethod
    def n_gpus(self) -> int:
        """The number of GPUs to use on this machine."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All settings that translations depend on, as JSON-serialisable values.

        Raises:
            OSError: for files that cannot be read.
        """

    @abstractmethod
    def translator(self, rules: OutputRules, device: Optional[int]) -> ChunkTranslator:
        """Load the model.

        Args:
            device: the number of the GPU; ``None`` for the CPU.

        Raises:
            OSError, ValueError: for a file or an option that cannot be used.
        """

    @abstractmethod
    def portable(self) -> tuple["CorpusModel", dict[str, str]]:
        """A copy of the model for another machine.

        Returns:
            the copy, with relative file paths, and a mapping from these paths to local files
        """


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
    if hasattr(signal, "pthread_sigmask"):
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


def _decoded(line: bytes) -> Optional[str]:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None
