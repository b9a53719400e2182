"""Locks a directory for one process, or for several with separate parts of the work."""

import contextlib
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

WHOLE = "lock"


@contextlib.contextmanager
def locked(directory: Path, index: int = 0, count: int = 1) -> Iterator[None]:
    """In this context, no other process does the same work in this directory.

    Workers of a killed process finish their chunks and hold its lock until then. The next process
    waits for them, so that no work is done twice.

    Args:
        directory: an existing one.
        index, count: the part of the work; a ``count`` of 1 is all of it.

    Raises:
        OSError: if the files cannot be written.
        ValueError: if another process holds the lock; the message names it.
    """
    if fcntl is None:
        yield
        return
    with contextlib.ExitStack() as files:

        def lock(name: str, kind: int) -> None:
            file = files.enter_context(open(directory / name, "ab+", buffering=0))
            _lock(file, kind)

        if count == 1:
            lock(WHOLE, fcntl.LOCK_EX)
        else:
            lock(WHOLE, fcntl.LOCK_SH)
            lock(f"{WHOLE}-{index}-of-{count}", fcntl.LOCK_EX)
        yield


def _lock(file: BinaryIO, kind: int) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        _check_owner(file)
        logger.warning("%s: waiting for workers of a command that was killed", file.name)
        fcntl.flock(file, kind)
    except OSError as error:  # file systems without locks
        logger.warning("%s: cannot be locked (%s); start no second process", file.name, error)
        return
    if kind == fcntl.LOCK_EX:
        file.truncate(0)
        file.write(json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode())


def _check_owner(file: BinaryIO) -> None:
    """Check that the process that acquired a lock has ended.

    Raises:
        ValueError: if it is running, or if that is unknown.
    """
    file.seek(0)
    try:
        kept = json.loads(file.read())
        owner = f"process {kept['process']} on {kept['host']}"
        if kept["host"] == socket.gethostname() and not _is_alive(kept["process"]):
            return
    except (ValueError, KeyError, TypeError):  # a process with a shared lock writes no name
        owner = "another process"
    raise ValueError(
        f"{Path(file.name).parent}: {owner} is using this directory; wait until it has ended, or "
        "end it"
    )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
