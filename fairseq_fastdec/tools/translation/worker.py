"""A process that translates chunks: it is given one after the other, and keeps or returns each."""

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Optional

import torch

from ...cores import pin
from .chunks import Chunk, ChunkStore, Translated
from .output_lines import NOT_UTF8, OutputRules, UntranslatedLine
from .translator import LineResult, LineTranslator

# Seconds between two messages of a worker about its progress: each takes the coordinator's time.
BETWEEN_REPORTS = 0.5


class Ready(NamedTuple):
    """The worker has loaded its models."""


class Progress(NamedTuple):
    """So many more lines of the worker's chunk are done."""

    n_lines: int


class Done(NamedTuple):
    """The worker's chunk is translated.

    Attributes:
        translated: without its content where the worker has written that.
    """

    translated: Translated


class Stopped(NamedTuple):
    """A line cannot be translated, and nothing shall stand for it."""

    line: int
    problem: str


class Failed(NamedTuple):
    """The input or the machine does not allow the worker to go on."""

    message: str


class Crashed(NamedTuple):
    """A mistake in the program."""

    traceback: str


class ChunkTranslator:
    """Everything between a chunk's lines and its part of the output."""

    def __init__(self, cfg: Any, rules: OutputRules) -> None:
        """
        Args:
            cfg: the configuration of fairseq-generate's command line.

        Raises:
            OSError, ValueError: as :class:`~.translator.LineTranslator`.
        """
        self._translator = LineTranslator(cfg)
        self._rules = rules
        self._seed = cfg.common.seed

    def prepare(self) -> None:
        """See :meth:`.translator.LineTranslator.prepare`."""
        self._translator.prepare()

    def translate(self, chunk: Chunk, progress: Callable[[int], Any]) -> Translated:
        """
        Args:
            progress: told how many lines are done, as they are.

        Raises:
            UntranslatedLine: with ``--on-error stop``.
        """
        texts = [_decoded(line) for line in chunk.lines]
        valid = [text for text in texts if text is not None]
        progress(len(texts) - len(valid))
        # What is drawn at random depends on the chunk, and on no chunk before it.
        results = iter(self._translator.translate(valid, self._seed + chunk.number, progress))
        of_lines: list[LineResult] = [NOT_UTF8 if text is None else next(results) for text in texts]
        return self._rules.render(chunk, of_lines)


@dataclass(frozen=True)
class Place:
    """Where a worker computes.

    Attributes:
        n_threads: in each decoding step.
        cores: the processors that are its own; ``None`` for any.
        device: the number of its GPU; ``None`` for none.
    """

    n_threads: int = 1
    cores: Optional[Sequence[int]] = None
    device: Optional[int] = None

    def settle(self) -> None:
        """Have this process compute there."""
        pin(self.cores)
        torch.set_num_threads(self.n_threads)
        if self.device is not None:
            torch.cuda.set_device(self.device)


def serve(
    connection: Connection,
    others: Sequence[Connection],
    load: Callable[[], ChunkTranslator],
    place: Place,
    store: Optional[ChunkStore],
) -> None:
    """Translate chunks until the coordinator closes the connection, or is gone.

    Args:
        connection: chunks come from it; messages of the classes above go back.
        others: what a forked process has inherited and must not keep open: another worker would
            not notice that the coordinator is gone.
        store: where the worker writes its chunks; ``None``: they go back with the message.
    """
    # Whoever interrupts the command at a terminal interrupts all its processes; the coordinator
    # decides what they do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    try:
        place.settle()
        translator = load()
    except (ValueError, OSError, ImportError) as error:
        _send(connection, Failed(str(error)))
        return
    _send(connection, Ready())
    while True:
        try:
            chunk = connection.recv()
        except (EOFError, OSError):
            return
        _send(connection, _message(chunk, translator, connection, store))


def _message(
    chunk: Chunk,
    translator: ChunkTranslator,
    connection: Connection,
    store: Optional[ChunkStore],
) -> Any:
    """Translate a chunk; what to tell the coordinator."""
    reporter = _Reporter(connection)
    try:
        translated = translator.translate(chunk, reporter.count)
        reporter.tell()
        if store is not None:
            store.write(chunk, translated)
            translated = Translated(b"", translated.counts)
        return Done(translated)
    except UntranslatedLine as error:
        return Stopped(error.number, error.problem)
    except (ValueError, OSError) as error:
        if isinstance(error, ValueError) and not str(error).startswith("--"):
            return Crashed(traceback.format_exc())
        return Failed(str(error))
    except Exception:
        return Crashed(traceback.format_exc())


class _Reporter:
    """Tells the coordinator how many lines are done, now and then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._n_lines = 0
        self._last = time.monotonic()

    def count(self, n_lines: int) -> None:
        """Count lines; tell, unless that was done a moment ago."""
        self._n_lines += n_lines
        if time.monotonic() - self._last >= BETWEEN_REPORTS:
            self.tell()

    def tell(self) -> None:
        """Tell what has not been told."""
        if self._n_lines:
            _send(self._connection, Progress(self._n_lines))
        self._n_lines, self._last = 0, time.monotonic()


def _send(connection: Connection, message: Any) -> None:
    """A coordinator that is gone is no reason to lose a chunk that is nearly done."""
    with contextlib.suppress(OSError):
        connection.send(message)


def _decoded(line: bytes) -> Optional[str]:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None
