"""The extension module with the compiled search, and how many threads it may have."""

from types import ModuleType
from typing import Optional

from . import loading


def search_module() -> Optional[ModuleType]:
    """The module; ``None`` where nothing was compiled."""
    if loading.library() is None:
        return None
    from . import _engine

    return _engine


def bounded(number: Optional[int]) -> int:
    """The number, or the largest that compiled code can count to; also that for ``None``."""
    most = search_module().ALL_STEPS
    return most if number is None else min(number, most)


def n_threads() -> int:
    """The number of threads that a call may have."""
    return loading.library().n_threads
