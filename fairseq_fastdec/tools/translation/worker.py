"""A process that translates chunks, one after the other, and writes or returns each.

A worker sends integers: the number of lines that it has translated since the last one, and 0 once
its model is loaded. For each chunk it then sends a :class:`~.chunks.Translated`, ``None`` if it has
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

from ...cores import pin
from .chunks import Chunk, ChunkStore, Translated
from .output_lines import NOT_UTF8, LineResult, OutputRules, UntranslatedLine

MENDABLE = "mend that, and the same command goes on from here"
# Seconds between two messages about progress, each of which takes the coordinator's time.
BETWEEN_REPORTS = 0.5

Progress = Callable[[int], Any]


class ChunkTranslator(Protocol):
    """The part of a worker that depends on the model."""

    def prepare(self) -> None:
        """Have the engine prepare the weights, for processes that are forked from this one."""

    def use_threads(self, n_threads: int) -> None:
        """Set the number of threads of a decoding step."""

    def translate(self, chunk: Chunk, progress: Progress) -> Translated:
        """Translate a chunk.

        Args:
            progress: is called with the number of lines that have just been translated.
        """


# From the number of a GPU, or ``None``, to what translates on it.
Load = Callable[[Optional[int]], ChunkTranslator]


class LineTranslator(ABC):
    """The base of translators of lines of text, which makes them translate chunks."""

    def __init__(self, rules: OutputRules, seed: int) -> None:
        """
        Args:
            rules: of the output.
            seed: of the random numbers of the first chunk.
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
            numbers: the lines' numbers in the input, by which drafts are found (default: from 0).
            texts: lines; white space around them does not count. An empty line stays empty.
            seed: of random numbers. The same lines with the same seed have the same translations.
            progress: is called with the number of lines that have just been translated.

        Returns:
            the result of each line, in their order.
        """

    def translate(self, chunk: Chunk, progress: Progress) -> Translated:
        """See :class:`ChunkTranslator`.

        Raises:
            UntranslatedLine: with ``--on-error stop``.
        """
        texts = [_decoded(line) for line in chunk.lines]
        valid = [(text, chunk.first + i) for i, text in enumerate(texts) if text is not None]
        lines, numbers = [text for text, _ in valid], [number for _, number in valid]
        # Samples depend on the chunk, and not on earlier ones.
        seed = self._seed + chunk.number
        results = iter(self.translate_lines(lines, seed, progress, numbers))
        return self._rules.render(
            chunk, [NOT_UTF8 if text is None else next(results) for text in texts]
        )


class CorpusModel(ABC):
    """The model of a command line, and its decoding options. It can be sent to other processes.

    Attributes:
        may_use_gpus: whether it is decoded on GPUs if a machine has them.
    """

    may_use_gpus: bool

    @abstractmethod
    def n_gpus(self) -> int:
        """The number of GPUs of this machine that it uses."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All settings that translations depend on, in values that JSON has.

        Raises:
            OSError: for files that cannot be read.
        """

    @abstractmethod
    def translator(self, rules: OutputRules, device: Optional[int]) -> ChunkTranslator:
        """Load the model.

        Args:
            device: the number of the GPU; ``None`` for the processors.

        Raises:
            OSError, ValueError: for a file or an option that cannot be used.
        """

    @abstractmethod
    def portable(self) -> tuple["CorpusModel", dict[str, str]]:
        """The model for another machine.

        Returns:
            a copy that names its files by relative paths; these paths, and the files here
        """


@dataclass(frozen=True)
class Place:
    """The processors or the GPU of a worker.

    Attributes:
        n_threads: of each decoding step.
        cores: the processors that it is bound to; ``None`` for any.
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
    """Translate chunks until the coordinator closes the connection, or has ended.

    Args:
        connection: to the coordinator.
        inherited: the other connections of a forked process. While one is open, its worker does
            not notice the end of the coordinator.
        store: where the worker writes its chunks; ``None`` to send them back.
    """
    # Ctrl-C at a terminal interrupts all processes of the command; the coordinator ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
    """Translate a chunk; the message about it."""
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
    """A function that sends the number of lines, but not too often."""
    n_lines, last = 0, time.monotonic()

    def count(n: int) -> None:
        nonlocal n_lines, last
        n_lines += n
        if n_lines and time.monotonic() - last >= BETWEEN_REPORTS:
            _send(connection, n_lines)
            n_lines, last = 0, time.monotonic()

    return count


def _send(connection: Connection, message: Any) -> None:
    """Send a message. A worker whose coordinator has ended finishes its chunk all the same."""
    with contextlib.suppress(OSError):
        connection.send(message)


def _decoded(line: bytes) -> Optional[str]:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None
