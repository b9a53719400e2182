"""One process at a time works in a directory, or several on parts of their own."""

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
    fcntl = None

logger = logging.getLogger(__name__)

WHOLE = "lock"


@contextlib.contextmanager
def locked(directory: Path, index: int = 0, count: int = 1) -> Iterator[None]:
    """Within, no other process does the same work in this directory.

    A process that was killed leaves workers behind that finish their chunks. They keep its lock,
    and whoever comes next waits for them: nothing is done twice.

    Args:
        directory: is there.
        index, count: the part of the work; ``count`` 1 is all of it.

    Raises:
        OSError: if the files cannot be written.
        ValueError: if another process is at work; it names it.
    """
    if fcntl is None:
        yield
        return
    with contextlib.ExitStack() as files:
        if count == 1:
            _lock(files.enter_context(_opened(directory / WHOLE)), fcntl.LOCK_EX)
        else:
            _lock(files.enter_context(_opened(directory / WHOLE)), fcntl.LOCK_SH)
            part = directory / f"{WHOLE}-{index}-of-{count}"
            _lock(files.enter_context(_opened(part)), fcntl.LOCK_EX)
        yield


def _opened(path: Path) -> BinaryIO:
    return open(path, "ab+", buffering=0)


def _lock(file: BinaryIO, kind: int) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        _check_owner(file)
        logger.warning("%s: waiting for workers of a command that was killed", file.name)
        fcntl.flock(file, kind)
    except OSError as error:  # of file systems without locks
        logger.warning("%s: cannot be locked (%s); start no second process", file.name, error)
        return
    if kind == fcntl.LOCK_EX:
        file.truncate(0)
        file.write(json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode())


def _check_owner(file: BinaryIO) -> None:
    """Find out whether the process that took a lock goes on."""
    file.seek(0)
    try:
        kept = json.loads(file.read())
        host, process = kept["host"], kept["process"]
        owner = f"process {process} on {host}"
    except (ValueError, KeyError, TypeError):  # processes that share the lock do not sign it
        host, process, owner = None, None, "another process"
    if host == socket.gethostname() and not _is_alive(process):
        return
    raise ValueError(
        f"{Path(file.name).parent}: {owner} is at work there; wait until it has ended, or end it"
    )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
