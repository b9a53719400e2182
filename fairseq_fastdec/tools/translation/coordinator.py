"""Hands out the chunks that are missing, and puts the output together when all are there."""

import collections
import contextlib
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Optional, Protocol

from .. import atomic_files
from .chunks import Chunk, ChunkStore, DamagedChunk, chunks_of, chunks_that_arrive
from .output_lines import UntranslatedLine
from .pool import Lost
from .progress_bar import LineBar
from .text_files import TextInput, packed
from .worker import Crashed, Done, Failed, Progress, Stopped

logger = logging.getLogger(__name__)

# How often damaged chunks are translated again before somebody should look at the disk.
ATTEMPTS = 3
# Seconds until the input is looked at again while it has no whole line.
BETWEEN_LOOKS = 0.05
MENDABLE = "mend that, and the same command goes on from here"


class Part(NamedTuple):
    """The chunks of this process: those whose numbers leave ``index`` when divided by ``count``."""

    index: int = 0
    count: int = 1

    def has(self, chunk: Chunk) -> bool:
        return chunk.number % self.count == self.index


class Work(Protocol):
    """The chunks to be translated, of any kind that workers and store understand."""

    def chunks(self) -> Iterator[Optional[Any]]:
        """All of them, with the numbers 0, 1, 2 and so on; ``None`` while the next is not there."""

    def share_read(self) -> Optional[float]:
        """The share of all that the chunks so far are; ``None`` where nobody knows."""

    def place(self, number: int) -> str:
        """Where the user finds a line."""


class TextWork(NamedTuple):
    """A text in chunks.

    Attributes:
        chunk_size: the lines of a chunk; ``None`` for those that have arrived on standard input.
    """

    text: TextInput
    chunk_size: Optional[int]

    def chunks(self) -> Iterator[Optional[Chunk]]:
        """See :class:`Work`."""
        if self.chunk_size is None:
            return chunks_that_arrive(self.text)
        return chunks_of(self.text, self.chunk_size)

    def share_read(self) -> Optional[float]:
        """See :class:`Work`."""
        return None if self.chunk_size is None else self.text.share_read()

    def place(self, number: int) -> str:
        """See :class:`Work`."""
        return self.text.place(number)


class Coordinator:
    """Translates with a pool of workers."""

    def __init__(
        self,
        work: Work,
        store: Any,
        start_pool: Callable[[], Any],
        new_bar: Callable[[], LineBar],
    ) -> None:
        """
        Args:
            store: a :class:`~.chunks.ChunkStore`, or what has its ``has`` and ``path``.
            start_pool: is called if there is something to translate; gives a
                :class:`~.pool.Pool`, or what has its methods.
            new_bar: gives the bar that shows how far it is.
        """
        self._work = work
        self._store = store
        self._start_pool = start_pool
        self._new_bar = new_bar
        self._n_chunks = 0
        self._has_ended = False
        self._lost: collections.deque[Chunk] = collections.deque()

    def translate(self, part: Part = Part(), written: Callable[[], Any] = lambda: None) -> int:
        """Translate the chunks that are not in the store, or damaged.

        Args:
            part: which of them.
            written: is called whenever a chunk has come into the store.

        Returns:
            how many chunks the text has.

        Raises:
            OSError: if an input cannot be read, or a chunk not written.
            RuntimeError: for a mistake in the program.
            ValueError: for an input that is damaged or has changed, a line that cannot be
                translated, or workers that die again and again.
        """
        self._n_chunks, self._has_ended = 0, False
        with contextlib.closing(self._new_bar()) as self._bar:
            missing = self._missing(part)
            # One chunk is read ahead: no worker waits for the disk.
            chunk = self._next(missing)
            if chunk is not None or not self._has_ended:
                with self._start_pool() as pool:
                    self._hand_out(chunk, missing, pool, written)
        return self._n_chunks

    def _hand_out(
        self,
        chunk: Optional[Chunk],
        missing: Iterator[Optional[Chunk]],
        pool: Any,
        written: Callable[[], Any],
    ) -> None:
        while chunk is not None or pool.is_busy or not self._has_ended:
            while chunk is not None and pool.has_room:
                pool.submit(chunk)
                chunk = self._next(missing)
            is_awaited = chunk is None and not self._has_ended
            for about, message in pool.messages(BETWEEN_LOOKS if is_awaited else None):
                self._hear(about, message)
                if isinstance(message, Done):
                    written()
            chunk = chunk or self._next(missing)

    def _next(self, missing: Iterator[Optional[Chunk]]) -> Optional[Chunk]:
        """The next chunk to translate; ``None`` if there is none, at least for now."""
        if self._lost:
            return self._lost.popleft()
        for chunk in missing:
            return chunk
        self._has_ended = True
        return None

    def _missing(self, part: Part) -> Iterator[Optional[Chunk]]:
        for chunk in self._work.chunks():
            if chunk is None:
                yield None
                continue
            self._n_chunks = chunk.number + 1
            self._bar.has_read(chunk, self._work.share_read())
            if part.has(chunk) and not self._is_there(chunk):
                yield chunk
            else:
                self._bar.count_earlier(chunk.n_lines)

    def _is_there(self, chunk: Chunk) -> bool:
        try:
            return self._store.has(chunk)
        except DamagedChunk:
            logger.warning("%s: damaged; translated again", self._store.path(chunk.number))
            return False

    def _hear(self, chunk: Chunk, message: Any) -> None:
        if isinstance(message, Progress):
            self._bar.update(message.n_lines)
        elif isinstance(message, Lost):
            # The worker may have died after its last step and before it said so.
            if self._is_there(chunk):
                self._bar.update(chunk.n_lines)
            else:
                self._lost.append(chunk)
        elif isinstance(message, Stopped):
            raise UntranslatedLine(
                message.line, f"{self._work.place(message.line)}: {message.problem}"
            )
        elif isinstance(message, Failed):
            raise OSError(f"{message.message}; {MENDABLE}")
        elif isinstance(message, Crashed):
            raise RuntimeError(f"in a worker:\n{message.traceback}")


class InOrder:
    """Hands chunks on as soon as all before them are there, and forgets them."""

    def __init__(self, store: ChunkStore, output: BinaryIO) -> None:
        self.counts: Counter[str] = collections.Counter()
        self._store = store
        self._output = output
        self._next = 0

    def advance(self) -> None:
        """Write what can be written.

        Raises:
            DamagedChunk: if a chunk is not what was written to the disk.
            OSError: if nobody reads the output any more, for example.
        """
        while self._store.path(self._next).exists():
            translated = self._store.read(self._next)
            self._output.write(translated.content)
            self._output.flush()
            self.counts.update(translated.counts)
            self._store.remove(self._next)
            self._next += 1


def complete(coordinator: Coordinator, text: TextInput, store: ChunkStore, output: Path) -> dict:
    """Translate what is missing, and put the output together.

    Returns:
        as :func:`put_together`.

    Raises:
        OSError, RuntimeError, ValueError: see there, and :meth:`Coordinator.translate`.
    """
    for _ in range(ATTEMPTS - 1):
        n_chunks = coordinator.translate()
        try:
            return put_together(store, n_chunks, output)
        except DamagedChunk as error:
            if not text.can_be_read_again:
                raise
            logger.warning("%s", error)
    return put_together(store, coordinator.translate(), output)


def put_together(store: ChunkStore, n_chunks: int, output: Path) -> dict[str, Any]:
    """Write all chunks, in order, into one file, which is then there as a whole.

    Until then it grows among the chunks.

    Args:
        output: is compressed as its name says.

    Returns:
        the file's size in bytes, the digest of what it holds (not compressed), and the counts of
        the chunks.

    Raises:
        DamagedChunk: for a chunk that is damaged or gone.
        OSError: if the output cannot be written.
    """
    digest = hashlib.sha256()
    counts: Counter[str] = collections.Counter()
    whole = store.directory / "output"
    try:
        with atomic_files.replacing(whole) as partial, packed(partial, output.name) as file:
            for number in range(n_chunks):
                translated = store.read(number)
                file.write(translated.content)
                digest.update(translated.content)
                counts.update(translated.counts)
        os.replace(whole, output)
    except OSError as error:
        raise OSError(f"{output}: {error}; {MENDABLE}") from error
    return {
        "size": output.stat().st_size,
        "sha256": digest.hexdigest(),
        "counts": dict(counts),
    }
