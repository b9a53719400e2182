"""Coordinates the translation of missing chunks, and writes the output."""

import contextlib
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Optional

from ..data import atomic_files
from .chunks import Chunk, ChunkStore, DamagedChunk
from .pool import ChunkPool
from .progress_bar import LineBar
from .text_files import packed
from .worker import MENDABLE, Progress

logger = logging.getLogger(__name__)

# The number of attempts to translate damaged chunks again, before the command fails.
ATTEMPTS = 3
# Seconds between attempts to read the input while it has no complete line.
BETWEEN_LOOKS = 0.05
# Stands for the chunk after the last one.
END = Chunk(-1, -1, b"")


class Coordinator:
    """Translates the chunks of a text with a pool of workers."""

    def __init__(
        self,
        chunks: Callable[[], Iterator[Optional[Chunk]]],
        store: ChunkStore,
        start_pool: Callable[[Progress], ChunkPool],
        new_bar: Callable[[], LineBar],
    ) -> None:
        """
        Args:
            chunks: returns all chunks, numbered from 0, with ``None`` while the next one has not
                arrived.
            start_pool: starts the workers, if there is something to translate.
            new_bar: returns a bar for the progress.
        """
        self._chunks = chunks
        self._store = store
        self._start_pool = start_pool
        self._new_bar = new_bar
        self._n_chunks = 0

    def translate(
        self, index: int = 0, count: int = 1, written: Callable[[], Any] = lambda: None
    ) -> int:
        """Translate the chunks that are damaged or not in the store.

        Args:
            index, count: the chunks of this process: those whose number modulo ``count`` is
                ``index``.
            written: called after a chunk has been stored.

        Returns:
            the number of all chunks

        Raises:
            OSError: if an input cannot be read, or a chunk cannot be written.
            RuntimeError: for a bug.
            ValueError: for an input that is damaged or has changed, a line that cannot be
                translated, or workers that die repeatedly.
        """
        with contextlib.closing(self._new_bar()) as bar:
            missing = self._missing(index, count, bar)
            # One chunk is read ahead, so that no worker waits for the disk.
            chunk = next(missing, END)
            if chunk is not END:
                with self._start_pool(bar.update) as pool:
                    while chunk is not END or pool.is_busy:
                        while chunk and chunk is not END and pool.has_room:
                            pool.submit(chunk)
                            chunk = next(missing, END)
                        self._collect(pool, None if chunk else BETWEEN_LOOKS, written)
                        chunk = chunk or next(missing, END)
        return self._n_chunks

    def complete(self, output: Path, can_be_read_again: bool = True) -> dict[str, Any]:
        """Translate missing chunks, and write the output.

        Args:
            can_be_read_again: whether chunks that are damaged meanwhile can be translated again.

        Returns:
            see :func:`put_together`

        Raises:
            OSError, RuntimeError, ValueError: see :meth:`translate` and :func:`put_together`.
        """
        for _ in range(ATTEMPTS - 1):
            n_chunks = self.translate()
            try:
                return put_together(self._store, n_chunks, output)
            except DamagedChunk as error:
                if not can_be_read_again:
                    raise
                logger.warning("%s", error)
        return put_together(self._store, self.translate(), output)

    def _missing(self, index: int, count: int, bar: LineBar) -> Iterator[Optional[Chunk]]:
        self._n_chunks = 0
        for chunk in self._chunks():
            if chunk is None:
                yield None
                continue
            self._n_chunks = chunk.number + 1
            bar.has_read(chunk.n_lines)
            if chunk.number % count == index and not self._store.has(chunk):
                yield chunk
            else:
                bar.count_earlier(chunk.n_lines)

    def _collect(
        self, pool: ChunkPool, seconds: Optional[float], written: Callable[[], Any]
    ) -> None:
        """Wait for finished chunks, and write those that workers have not written."""
        for chunk, outcome in pool.results(seconds):
            if isinstance(outcome, Exception):
                raise outcome
            assert chunk is not None
            if outcome is not None:
                try:
                    self._store.write(chunk, outcome)
                except OSError as error:
                    raise OSError(f"{error}; {MENDABLE}") from error
            written()


class InOrder:
    """Writes the chunks of a store in order, each as soon as all before it are written."""

    def __init__(self, store: ChunkStore, output: BinaryIO) -> None:
        self.counts: Counter[str] = Counter()
        self._store = store
        self._output = output
        self._next = 0

    def advance(self) -> None:
        """Write the chunks that can be written, and remove them.

        Raises:
            DamagedChunk: if a chunk is damaged.
            OSError: if the output cannot be written.
        """
        while self._store.path(self._next).exists():
            translated = self._store.read(self._next)
            self._output.write(translated.content)
            self._output.flush()
            self.counts.update(translated.counts)
            self._store.remove(self._next)
            self._next += 1


def put_together(store: ChunkStore, n_chunks: int, output: Path) -> dict[str, Any]:
    """Write all chunks in order into one file, which replaces ``output`` once it is complete.

    Args:
        output: is compressed according to its extension.

    Returns:
        the size of the file in bytes, the digest of its content before compression, and the counts
        of the chunks

    Raises:
        DamagedChunk: for a chunk that is damaged or missing.
        OSError: if the output cannot be written.
    """
    digest, counts = hashlib.sha256(), Counter[str]()
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
