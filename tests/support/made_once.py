"""Directories that are expensive to fill, for all processes of a run."""

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def directory(parent: Path, name: str, fill: Callable[[Path], object]) -> Path:
    """The directory of a name; whoever needs it first fills it, and others wait for that.

    Args:
        parent: of the directory; the same in all processes of a run, and of no other run.
        fill: is called with an empty directory. After an error the next one tries again.
    """
    place, done = parent / name, parent / f"{name}.done"
    with FileLock(parent / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            fill(place)
            done.touch()
    return place
