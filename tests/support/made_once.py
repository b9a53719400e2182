"""Directories that are expensive to create, shared by all processes of a run."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

# The environment variable with the directory of a run, also for processes started by tests.
OF_THE_RUN = "FASTDEC_MADE_ONCE"


def in_run(name: str, fill: Callable[[Path], object]) -> Path:
    """The directory ``name`` in the directory of the run."""
    return directory(Path(os.environ[OF_THE_RUN]), name, fill)


def directory(parent: Path, name: str, fill: Callable[[Path], object]) -> Path:
    """The directory ``name``; the first process that needs it fills it, and others wait.

    Args:
        parent: its parent, shared by all processes of a run but not by other runs.
        fill: called with an empty directory; after an error, the next process tries again.
    """
    place, done = parent / name, parent / f"{name}.done"
    with FileLock(parent / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            fill(place)
            done.touch()
    return place
