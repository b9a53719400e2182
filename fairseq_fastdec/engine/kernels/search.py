"""The extension module with the compiled search, and the threads that it runs in."""

from types import ModuleType
from typing import Optional

from . import loading


def search_module() -> Optional[ModuleType]:
    """The module; ``None`` where nothing was compiled."""
    if loading.library() is None:
        return None
    from . import _engine

    return _engine


def address_of_threads() -> int:
    """The address of the threads that a search may use; 0 where there is one thread."""
    return loading.library().address_of_threads() or 0


def n_threads() -> int:
    """The number of threads that a call may have."""
    return loading.library().n_threads
