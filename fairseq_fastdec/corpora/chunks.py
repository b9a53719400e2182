"""Chunks: consecutive lines of the input, and the files of their translations."""

import hashlib
import json
import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ..data import atomic_files
from .text_files import TextInput

logger = logging.getLogger(__name__)

# Changes with the format of a chunk's file.
FORMAT = b"fastdec-chunk 1 "
AGAIN = "run the command again to translate these lines again"


class Chunk(NamedTuple):
    """Lines that are translated and stored together.

    Attributes:
        number: from 0.
        first: the number of the first line, from 0.
        source: the lines, each ending in ``\\n``.
    """

    number: int
    first: int
    source: bytes

    @property
    def lines(self) -> list[bytes]:
        """The lines without line ends."""
        return self.source.split(b"\n")[:-1]

    @property
    def n_lines(self) -> int:
        return self.source.count(b"\n")


def chunks_of(text: TextInput, size: Optional[int]) -> Iterator[Optional[Chunk]]:
    """The input in chunks.

    Args:
        size: the lines of a chunk; the last one can have fewer. ``None`` for the lines that have
            arrived on standard input.

    Yields:
        chunks; with the size ``None`` also ``None`` while there are no lines.

    Raises:
        OSError, ValueError: for a file that cannot be read, or is damaged.
    """
    number = first = 0
    lines = text.lines()
    pieces = text.arriving() if size is None else iter(lambda: b"".join(islice(lines, size)), b"")
    for source in pieces:
        chunk = Chunk(number, first, source) if source else None
        yield chunk
        if chunk is not None:
            number, first = number + 1, first + chunk.n_lines


class Translated(NamedTuple):
    """The output of a chunk, and its counts.

    Attributes:
        content: the bytes of the output.
        counts: how many lines were translated, and how many were not, by reason.
    """

    content: bytes
    counts: dict[str, int]


class OtherSource(ValueError):
    """A chunk's file was made from other lines than those of the input."""


class DamagedChunk(ValueError):
    """A chunk's file differs from what :meth:`ChunkStore.write` wrote."""


class ChunkStore:
    """A directory of translated chunks. The file of a chunk is complete, or there is none.

    The first line of a file contains the digest of the rest, so that damage is detected. The rest
    is a description (the chunk's number, the digest of the source, the counts) and the content.
    """

    def __init__(self, directory: Path) -> None:
        """
        Args:
            directory: an existing one.
        """
        self.directory = directory

    def path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.directory / f"{number:08}.chunk"

    def write(self, chunk: Chunk, translated: Translated) -> None:
        """Write a chunk. A power failure immediately afterwards may remove the whole file.

        Raises:
            OSError: if the disk is full, for example; then no file is left.
        """
        description = {
            "chunk": chunk.number,
            "source_sha256": _digest(chunk.source),
            "counts": translated.counts,
        }
        body = json.dumps(description).encode("ascii") + b"\n" + translated.content
        header = FORMAT + _digest(body).encode("ascii") + b"\n"
        # Not flushed: waiting for the disk slows down workers, and lost chunks are translated
        # again.
        atomic_files.write_bytes(self.path(chunk.number), header + body, flushes_name=False)

    def has(self, chunk: Chunk) -> bool:
        """Whether there is an undamaged file of a chunk; a damaged one causes a warning.

        Raises:
            OSError: if it cannot be read.
            OtherSource: if it was made from other lines.
        """
        path = self.path(chunk.number)
        if not path.exists():
            return False
        try:
            description, _ = self._checked(path)
        except DamagedChunk:
            logger.warning("%s: damaged; translated again", path)
            return False
        if description["source_sha256"] != _digest(chunk.source):
            raise OtherSource(
                f"{path}: was made from other lines than those in the input; choose another "
                "--output, or delete this directory"
            )
        return True

    def read(self, number: int) -> Translated:
        """The translation of a chunk.

        Raises:
            DamagedChunk: if its file is damaged or missing.
            OSError: if it cannot be read.
        """
        description, content = self._checked(self.path(number))
        return Translated(content, description["counts"])

    def remove(self, number: int) -> None:
        """Remove a chunk."""
        self.path(number).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Remove all chunks."""
        for path in self.directory.glob("*.chunk"):
            path.unlink(missing_ok=True)
        self.remove_beginnings()

    def remove_beginnings(self) -> None:
        """Remove the unfinished files of processes that were killed."""
        for path in self.directory.glob("*.partial"):
            path.unlink(missing_ok=True)

    def _checked(self, path: Path) -> tuple[dict[str, Any], bytes]:
        try:
            header, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError as error:
            raise DamagedChunk(f"{path}: is gone; {AGAIN}") from error
        if header != FORMAT + _digest(body).encode("ascii"):
            raise DamagedChunk(f"{path}: damaged; {AGAIN}")
        line, _, content = body.partition(b"\n")
        description = json.loads(line)
        if path != self.path(description["chunk"]):
            raise DamagedChunk(f"{path}: holds chunk {description['chunk']}; {AGAIN}")
        return description, content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
