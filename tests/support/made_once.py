"""Directories that are expensive to fill, for all processes of a run."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

# The environment variable that names the directory of a run, for processes that tests start, too.
OF_THE_RUN = "FASTDEC_MADE_ONCE"


def in_run(name: str, fill: Callable[[Path], object]) -> Path:
    """The directory of a name in that of the run."""
    return directory(Path(os.environ[OF_THE_RUN]), name, fill)


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
