"""Chunks: consecutive lines of the input that are translated, kept and lost together."""

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .. import atomic_files
from .text_files import TextInput

# Changes with what a chunk's file looks like.
FORMAT = b"fastdec-chunk 1 "
AGAIN = "run the command again, which translates these lines anew"


class Chunk(NamedTuple):
    """Lines to be translated.

    Attributes:
        number: from 0 on.
        first: the number of the first line, from 0 on.
        source: the lines, each with ``\\n`` at its end.
    """

    number: int
    first: int
    source: bytes

    @property
    def lines(self) -> list[bytes]:
        """The lines without their ends."""
        return self.source.split(b"\n")[:-1]

    @property
    def n_lines(self) -> int:
        return self.source.count(b"\n")


def chunks_of(text: TextInput, size: int) -> Iterator[Chunk]:
    """The input in chunks of ``size`` lines; the last one can be shorter.

    Raises:
        OSError, ValueError: for a file that cannot be read, or is damaged.
    """
    lines = text.lines()
    for number in itertools.count():
        source = b"".join(itertools.islice(lines, size))
        if not source:
            return
        yield Chunk(number, number * size, source)


def chunks_that_arrive(text: TextInput) -> Iterator[Optional[Chunk]]:
    """Standard input in chunks of the lines that have arrived; ``None`` while there are none.

    Raises:
        OSError: if standard input cannot be read.
    """
    number = first = 0
    for source in text.arriving():
        chunk = Chunk(number, first, source) if source else None
        yield chunk
        if chunk is not None:
            number, first = number + 1, first + chunk.n_lines


class Translated(NamedTuple):
    """The output of a chunk, and its counts.

    Attributes:
        content: the bytes that go into the output.
        counts: how many lines were translated, and how many were not, by reason.
    """

    content: bytes
    counts: dict[str, int]


class OtherSource(ValueError):
    """A chunk's file is of other lines than those that are to be translated now."""


class DamagedChunk(ValueError):
    """A chunk's file is not what :meth:`ChunkStore.write` wrote."""


class ChunkStore:
    """A directory of translated chunks, each in a file that is there as a whole or not at all.

    The first line of a file has the digest of all that follows: a description (which chunk it is,
    the digest of the lines that were translated, the counts) and the content. So whatever a crash
    of the machine or another program did to a file is noticed.
    """

    def __init__(self, directory: Path) -> None:
        """
        Args:
            directory: is there.
        """
        self.directory = directory

    def path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.directory / f"{number:08}.chunk"

    def write(self, chunk: Chunk, translated: Translated) -> None:
        """Write a chunk. A power failure right after it may take it away, and never a part of it.

        Raises:
            OSError: if the disk is full, for example; then nothing is left of it.
        """
        description = {
            "chunk": chunk.number,
            "source_sha256": _digest(chunk.source),
            "counts": translated.counts,
        }
        body = json.dumps(description).encode("ascii") + b"\n" + translated.content
        header = FORMAT + _digest(body).encode("ascii") + b"\n"
        # Nobody decodes while a worker waits for the disk, and chunks can be translated again.
        atomic_files.write_bytes(self.path(chunk.number), header + body, flushes_name=False)

    def has(self, chunk: Chunk) -> bool:
        """Whether a chunk is there.

        Raises:
            DamagedChunk: if its file is not what was written.
            OSError: if it cannot be read.
            OtherSource: if it was made of other lines.
        """
        path = self.path(chunk.number)
        if not path.exists():
            return False
        if self._description(path)["source_sha256"] != _digest(chunk.source):
            raise OtherSource(
                f"{path}: was made of other lines than those that the input has now; name another "
                "--output, or delete this directory"
            )
        return True

    def read(self, number: int) -> Translated:
        """A chunk that is there.

        Raises:
            DamagedChunk: if its file is not what was written.
            OSError: if it cannot be read.
        """
        path = self.path(number)
        description, content = self._checked(path)
        return Translated(content, description["counts"])

    def remove(self, number: int) -> None:
        """Forget a chunk."""
        self.path(number).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Forget all chunks."""
        for path in self.directory.glob("*.chunk"):
            path.unlink(missing_ok=True)
        self.remove_beginnings()

    def remove_beginnings(self) -> None:
        """Remove what processes began to write that were killed."""
        for path in self.directory.glob("*.partial"):
            path.unlink(missing_ok=True)

    def _description(self, path: Path) -> dict[str, Any]:
        return self._checked(path)[0]

    def _checked(self, path: Path) -> Any:
        try:
            header, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError as error:
            raise DamagedChunk(f"{path}: is gone; {AGAIN}") from error
        if header != FORMAT + _digest(body).encode("ascii"):
            raise DamagedChunk(f"{path}: damaged; {AGAIN}")
        description, _, content = body.partition(b"\n")
        kept = json.loads(description)
        if path != self.path(kept["chunk"]):
            raise DamagedChunk(f"{path}: holds chunk {kept['chunk']}; {AGAIN}")
        return kept, content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
