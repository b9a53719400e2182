"""Files that are there as a whole or not at all, whenever a process or the machine ends."""

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, flushes_name: bool = True) -> Iterator[Path]:
    """Give a path beside ``path`` to write to; after the block, what is there replaces ``path``.

    Where the block raises an error, ``path`` stays as it was and nothing is left beside it. The
    path given is of its own each time: several processes may write the same file.

    Args:
        flushes_name: whether a power failure right after it cannot take the file away again. The
            disk is waited for once more then.

    Raises:
        OSError: if the file cannot be written.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        # A file that was renamed but not written to the disk is empty after a power failure.
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
        if flushes_name:
            _flush_names(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes, flushes_name: bool = True) -> None:
    """Write a whole file.

    Args:
        flushes_name: see :func:`replacing`.

    Raises:
        OSError: if it cannot be written.
    """
    with replacing(path, flushes_name) as partial:
        partial.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a whole file in UTF-8; newlines stay as they are.

    Raises:
        OSError: if it cannot be written.
    """
    with replacing(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        file.write(content)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a whole file of lines, each with a newline behind it.

    Raises:
        OSError: if it cannot be written.
    """
    with replacing(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def _flush_names(directory: Path) -> None:
    """Have the names in a directory on the disk, too, where the system can."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except OSError:  # of systems that open no directories
        return
    try:
        os.fsync(number)
    except OSError:  # of file systems that write names at once, or never said they could
        pass
    finally:
        os.close(number)
