"""Writes files atomically: after a crash, a file is complete or does not exist."""

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, flushes_name: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces ``path`` at the end of the block.

    If the block raises an error, ``path`` is unchanged and the temporary file is removed. The
    temporary path is unique, so several processes may write the same file.

    Args:
        flushes_name: whether to flush the directory, so that the new name survives a power failure;
            this waits for the disk once more.

    Raises:
        OSError: if the file cannot be written.
    """
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        # Without this, the renamed file could be empty after a power failure.
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
    """Write a whole file in UTF-8, without converting newlines.

    Raises:
        OSError: if it cannot be written.
    """
    with replacing(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        file.write(content)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a whole file of lines, each followed by a newline.

    Raises:
        OSError: if it cannot be written.
    """
    with replacing(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def check_is_new(option: str, directory: Path) -> None:
    """
    Raises:
        ValueError: for a file, or a directory that already has content, which would be mixed with
            the new content.
    """
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{option} {directory}: is not a directory; give a new directory")
    if directory.exists() and any(directory.iterdir()):
        raise ValueError(f"{option} {directory}: is not empty; give a new directory")


def _flush_names(directory: Path) -> None:
    """Flush the entries of a directory to the disk, if the system supports it."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except OSError:  # systems that cannot open directories
        return
    try:
        os.fsync(number)
    except OSError:  # file systems that cannot sync directories
        pass
    finally:
        os.close(number)
