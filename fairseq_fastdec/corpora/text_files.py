"""Reads text line by line in constant memory: files, compressed or not, and standard input."""

import bz2
import contextlib
import errno
import gzip
import hashlib
import io
import lzma
import os
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Optional

from ..data.text import MARK, without_mark
from ..processes.streams import standard

STANDARD_STREAM = "-"
# The number of bytes read at once. Decompressed, they can become a thousand times larger.
PIECE = 1 << 16
# Lines of a stream are gathered for this many seconds, or until there are this many bytes.
GATHERING, GATHERED = 0.05, 1 << 15


class DamagedFile(ValueError):
    """A compressed file that cannot be read to its end; the message names it."""


class FileContent(NamedTuple):
    """A description of a file's content, to detect changes.

    Attributes:
        size: bytes.
        sha256: the digest of the file, in hexadecimal.
        lines: the number of lines; ``None`` for a compressed file.
    """

    size: int
    sha256: str
    lines: Optional[int]


class TextInput:
    """The lines of several files, one after the other.

    Lines end only with ``\\n``, so that translations are aligned for ``wc -l`` and ``paste``. A
    line can contain other characters that Python treats as line ends.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """
        Args:
            paths: ``-`` is standard input; ``.gz``, ``.xz``, ``.bz2`` and ``.zst`` are unpacked.

        Raises:
            OSError: for a missing file.
            ValueError: for standard input together with other files, if it is closed, and for a
                pipe that is named twice.
        """
        if STANDARD_STREAM in paths and len(paths) > 1:
            raise ValueError(
                "--input -: standard input cannot be combined with files; remove the other files"
            )
        for path in paths:
            if path == STANDARD_STREAM:
                standard("stdin")
            elif os.path.isfile(path):
                with open(path, "rb"):
                    pass
        _check_pipes([path for path in paths if path != STANDARD_STREAM])
        self.paths = list(paths)
        self._sizes = {
            path: os.path.getsize(path)
            for path in paths
            if path != STANDARD_STREAM and os.path.isfile(path)
        }
        self._starts: list[int] = []
        self._n_bytes_read = 0

    @property
    def can_be_read_again(self) -> bool:
        """Whether the lines can be read a second time: all inputs are regular files."""
        return len(self._sizes) == len(set(self.paths))

    def lines(self) -> Iterator[bytes]:
        """All lines, each ending in ``\\n``, which is added to the last line of a file if missing.

        Raises:
            DamagedFile: for a compressed file that is cut short or otherwise damaged.
            OSError: for a file that cannot be read.
        """
        self._starts, self._n_bytes_read, n_lines = [], 0, 0
        for path in self.paths:
            self._starts.append(n_lines)
            for line in self._lines_of(path):
                n_lines += 1
                yield line

    def arriving(self) -> Iterator[bytes]:
        """The complete lines that have arrived on standard input; empty while there are none.

        Lines that arrive within :data:`GATHERING` seconds are returned together.

        Raises:
            OSError: if standard input cannot be read, or is not a pipe, terminal or file.
        """
        file = sys.stdin.fileno()
        self._starts = [0]
        text, is_open, mark = b"", True, MARK
        while is_open:
            end, n_read = None, 0
            while is_open and n_read < GATHERED and _has_arrived(file, end):
                piece = os.read(file, GATHERED)
                is_open, n_read = bool(piece), n_read + len(piece)
                text += piece or (b"\n" if text and not text.endswith(b"\n") else b"")
                end = end or time.monotonic() + GATHERING
            whole, newline, text = text.rpartition(b"\n")
            yield (whole + newline).removeprefix(mark)
            mark = b"" if newline else mark

    def place(self, number: int) -> str:
        """The file of a line that has been read, and the line number in this file.

        Args:
            number: the line number in the whole input, from 0.
        """
        index = max(i for i, start in enumerate(self._starts) if start <= number)
        path = self.paths[index]
        name = "standard input" if path == STANDARD_STREAM else path
        return f"{name}, line {number - self._starts[index] + 1}"

    def share_read(self) -> Optional[float]:
        """The share of all bytes that has been read; ``None`` if their number is unknown."""
        total = sum(self._sizes[path] for path in self.paths) if self.can_be_read_again else 0
        return min(1.0, self._n_bytes_read / total) if total else None

    def content(self) -> list[Optional[FileContent]]:
        """The content of each file; ``None`` for standard input and pipes, which are read once."""
        return [content_of(path) if path in self._sizes else None for path in self.paths]

    def _lines_of(self, path: str) -> Iterator[bytes]:
        if path == STANDARD_STREAM:
            yield from _lines(without_mark(sys.stdin.buffer))
            return
        unpacker = UNPACKERS.get(Path(path).suffix)
        with open(path, "rb") as file:
            pieces = self._pieces(file)
            text = _unpacked(path, pieces, unpacker) if unpacker else pieces
            yield from _lines(without_mark(text))

    def _pieces(self, file: io.BufferedReader) -> Iterator[bytes]:
        # What has arrived, for pipes.
        while piece := file.read1(PIECE):
            self._n_bytes_read += len(piece)
            yield piece


def _check_pipes(paths: Sequence[str]) -> None:
    """Check that files exist and can be read as often as they are named, without opening pipes.

    A pipe that is opened and closed again loses its content.

    Raises:
        OSError: for a missing file, and for a directory.
        ValueError: for a pipe that is named twice.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            file = (status.st_dev, status.st_ino)
            if file in seen:
                raise ValueError(f"--input {path}: is a pipe, which can be read once; name it once")
            seen.add(file)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines, each with ``\\n`` at its end."""
    begun: list[bytes] = []
    for piece in pieces:
        for line in io.BytesIO(piece):
            begun.append(line)
            if line.endswith(b"\n"):
                yield b"".join(begun)
                begun.clear()
    if begun:
        yield b"".join(begun) + b"\n"


def _unpacked(path: str, pieces: Iterator[bytes], unpacker: Callable[[], Any]) -> Iterator[bytes]:
    """The content of a compressed file, which may consist of several concatenated streams.

    Raises:
        DamagedFile: if it is cut short or otherwise damaged.
    """
    unpacking, is_within = unpacker(), False
    try:
        for piece in pieces:
            while piece:
                yield unpacking.decompress(piece)
                piece, is_within = b"", not unpacking.eof
                if unpacking.eof:
                    # xz and gzip files may be padded with zeros.
                    piece = unpacking.unused_data.lstrip(b"\0")
                    unpacking = unpacker()
        if is_within:
            raise EOFError("it ends too early")
    except Exception as error:  # each module has its own errors
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedFile(
            f"{path}: damaged, or not in the format of its extension ({error}); download it again"
        ) from error


def _has_arrived(file: int, end: Optional[float]) -> bool:
    """Whether there is something to read; waits until ``end``.

    Args:
        end: a time of ``time.monotonic()``; ``None`` for no wait.
    """
    seconds = 0.0 if end is None else max(0.0, end - time.monotonic())
    return bool(select.select([file], [], [], seconds)[0])


@contextlib.contextmanager
def packed(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file for writing, compressed according to the extension of ``name``.

    The file depends only on the content, not on the time.

    Raises:
        OSError: if it cannot be written.
        ValueError: for ``.zst`` if the package for it is not installed.
    """
    pack = PACKERS.get(Path(name).suffix)
    with open(path, "wb") as file:
        if pack is None:
            yield file
        else:
            with pack(file) as packing:
                yield packing


def content_of(path: str) -> FileContent:
    """The content of a file.

    Raises:
        OSError: if it cannot be read.
    """
    digest, n_lines, last, size = hashlib.sha256(), 0, b"\n", 0
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            n_lines += piece.count(b"\n")
            size += len(piece)
            last = piece[-1:]
    n_lines += last != b"\n"
    is_packed = Path(path).suffix in PACKERS
    return FileContent(size, digest.hexdigest(), None if is_packed else n_lines)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ValueError(
            "the package zstandard, which reads and writes .zst, is not installed: pip install "
            "'fastdec-runtime[zstd]' (or pip install zstandard)"
        ) from error
    return zstandard


UNPACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": lambda: _zstandard().ZstdDecompressor().decompressobj(),
}
PACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0),
    ".xz": lambda file: lzma.LZMAFile(file, "wb"),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
    ".zst": lambda file: _zstandard().ZstdCompressor().stream_writer(file, closefd=False),
}
