"""Text that is read line by line in constant memory: files, compressed or not, standard input."""

import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import select
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Optional

STANDARD_STREAM = "-"
PIECE = 1 << 20
# How long lines of a stream wait for others, in seconds, and how many bytes do not wait.
GATHERING, GATHERED = 0.05, 1 << 18
# What the modules raise for damaged files. OSErrors of theirs have no number of the system's.
DAMAGES = (EOFError, lzma.LZMAError, zlib.error, OSError)


class DamagedFile(ValueError):
    """A compressed file that cannot be read to its end; the message names it."""


class FileContent(NamedTuple):
    """A file's size and digest, so that another content is noticed.

    Attributes:
        size: bytes.
        sha256: of the file as it lies on the disk, in hexadecimal.
        lines: how many; ``None`` for a compressed file.
    """

    size: int
    sha256: str
    lines: Optional[int]


class TextInput:
    """The lines of several files, one after the other.

    Lines end with ``\\n`` and nowhere else. Whatever else Python takes for the end of a line can be
    within one, so that translations stay in step with ``wc -l`` and ``paste``.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """
        Args:
            paths: ``-`` is standard input; ``.gz``, ``.xz``, ``.bz2`` and ``.zst`` are unpacked.

        Raises:
            OSError: for a file that is not there.
            ValueError: for standard input beside other files.
        """
        if STANDARD_STREAM in paths and len(paths) > 1:
            raise ValueError("--input -: standard input goes alone; remove the other files")
        for path in paths:
            if path != STANDARD_STREAM:
                with open(path, "rb"):
                    pass
        self.paths = list(paths)
        self._sizes = {path: os.path.getsize(path) for path in paths if _is_regular(path)}
        self._starts: list[int] = []
        self._reads: Optional[BinaryIO] = None
        self._n_bytes_before = 0

    @property
    def can_be_read_again(self) -> bool:
        """Whether all lines come once more where they are asked for again."""
        return len(self._sizes) == len(set(self.paths))

    def lines(self) -> Iterator[bytes]:
        """All lines, each with ``\\n`` at its end, also where the last one of a file has none.

        Raises:
            DamagedFile: for a compressed file that is cut short, or is none.
            OSError: for a file that cannot be read.
        """
        self._starts, self._n_bytes_before = [], 0
        n_lines = 0
        for path in self.paths:
            self._starts.append(n_lines)
            for line in self._lines_of(path):
                n_lines += 1
                yield line if line.endswith(b"\n") else line + b"\n"
            self._n_bytes_before += self._sizes.get(path, 0)

    def arriving(self) -> Iterator[bytes]:
        """The whole lines that have arrived on standard input; empty while there are none.

        Lines that arrive within :data:`GATHERING` seconds come together.

        Raises:
            OSError: if standard input cannot be read, or is no pipe, terminal or file.
        """
        file = sys.stdin.fileno()
        self._starts = [0]
        text, is_open = b"", True
        while is_open:
            end, n_read = None, 0
            while is_open and n_read < GATHERED and _has_arrived(file, end):
                piece = os.read(file, GATHERED)
                is_open, n_read = bool(piece), n_read + len(piece)
                text += piece or (b"\n" if text and not text.endswith(b"\n") else b"")
                end = end or time.monotonic() + GATHERING
            whole, newline, text = text.rpartition(b"\n")
            yield whole + newline

    def place(self, number: int) -> str:
        """Where the user finds a line that has been read: the file, and the line's number there.

        Args:
            number: among all lines, from 0 on.
        """
        index = max(i for i, start in enumerate(self._starts) if start <= number)
        path = self.paths[index]
        name = "standard input" if path == STANDARD_STREAM else path
        return f"{name}, line {number - self._starts[index] + 1}"

    def share_read(self) -> Optional[float]:
        """The share of all bytes that has been read; ``None`` where nobody knows how many come."""
        total = sum(self._sizes[path] for path in self.paths) if self.can_be_read_again else 0
        if not total:
            return None
        within = self._reads.tell() if self._reads is not None else 0
        return min(1.0, (self._n_bytes_before + within) / total)

    def content(self) -> list[Optional[FileContent]]:
        """The content of each file; ``None`` for standard input and pipes, which are read once."""
        return [_content(path) if path in self._sizes else None for path in self.paths]

    def _lines_of(self, path: str) -> Iterator[bytes]:
        if path == STANDARD_STREAM:
            yield from sys.stdin.buffer
            return
        with open(path, "rb") as file:
            self._reads = file if path in self._sizes else None
            try:
                with _unpacked(path, file) as lines:
                    yield from lines
            except DAMAGES as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise DamagedFile(
                    f"{path}: damaged, or not what its name says ({error}); fetch it again"
                ) from error
            finally:
                self._reads = None


def _has_arrived(file: int, end: Optional[float]) -> bool:
    """Whether there is something to read; waits for it until ``end``.

    Args:
        end: as of ``time.monotonic()``; ``None`` not to wait.
    """
    seconds = 0.0 if end is None else max(0.0, end - time.monotonic())
    return bool(select.select([file], [], [], seconds)[0])


def packs(path: str) -> bool:
    """Whether a file of this name is compressed."""
    return Path(path).suffix in PACKERS


@contextlib.contextmanager
def packed(path: Path, name: str) -> Iterator[BinaryIO]:
    """A file to write to; what is written is compressed as the ending of ``name`` says.

    The same content gives the same file: no time of day goes into it.

    Raises:
        OSError: if it cannot be written.
        ValueError: for ``.zst`` where the package for it is not installed.
    """
    pack = PACKERS.get(Path(name).suffix)
    with open(path, "wb") as file:
        if pack is None:
            yield file
        else:
            with pack(file) as packing:
                yield packing


def _is_regular(path: str) -> bool:
    return path != STANDARD_STREAM and os.path.isfile(path)


def _content(path: str) -> FileContent:
    digest, n_lines, last, size = hashlib.sha256(), 0, b"\n", 0
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            n_lines += piece.count(b"\n")
            size += len(piece)
            last = piece[-1:]
    n_lines += last != b"\n"
    return FileContent(size, digest.hexdigest(), None if packs(path) else n_lines)


def _unpacked(path: str, file: BinaryIO) -> Any:
    unpack = UNPACKERS.get(Path(path).suffix)
    return contextlib.nullcontext(file) if unpack is None else unpack(file)


class _ZstdFrames(io.RawIOBase):
    """The content of a ``.zst`` file of any number of frames.

    The package's own reader takes a file that was cut short for a whole one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._new_frame = _zstandard().ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._packed, self._left = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            self._packed = self._packed or self._file.read(PIECE)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            self._frame = self._frame or self._new_frame()
            self._left = memoryview(self._decompress())
            self._packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        n = min(len(buffer), len(self._left))
        buffer[:n], self._left = self._left[:n], self._left[n:]
        return n

    def _decompress(self) -> bytes:
        try:
            return self._frame.decompress(self._packed)
        except _zstandard().ZstdError as error:
            raise EOFError(str(error)) from error


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ValueError(
            "the package zstandard, which reads and writes .zst, is not installed: pip install "
            "'fairseq_fastdec[zstd]' (or pip install zstandard)"
        ) from error
    return zstandard


def _unpack_zstd(file: BinaryIO) -> BinaryIO:
    return io.BufferedReader(_ZstdFrames(file), PIECE)


def _pack_zstd(file: BinaryIO) -> BinaryIO:
    return _zstandard().ZstdCompressor().stream_writer(file, closefd=False)


UNPACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    ".xz": lambda file: lzma.LZMAFile(file, "rb"),
    ".bz2": lambda file: bz2.BZ2File(file, "rb"),
    ".zst": _unpack_zstd,
}
PACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0),
    ".xz": lambda file: lzma.LZMAFile(file, "wb"),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
    ".zst": _pack_zstd,
}
