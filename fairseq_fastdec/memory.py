"""Memory that the process holds and no longer needs goes back to the system.

Nothing of this does anything where the system is not Linux with glibc.
"""

import contextlib
import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional

# glibc's numbers of its settings, and the names by which a user sets them.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")
TUNABLES = "GLIBC_TUNABLES"
LARGE_PIECE = 1 << 20
# What glibc itself comes to in a process that has freed large pieces.
USUAL_LARGE_PIECE = 32 << 20


def trim() -> None:
    """Give back what was freed; glibc keeps it for the next time that somebody asks."""
    library = _c_library()
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(ctypes.c_size_t(0))


@contextlib.contextmanager
def large_pieces_apart() -> Iterator[None]:
    """Within, pieces of a MiB or more have pages of their own, which leave when they are freed.

    Otherwise small pieces that stay come to lie among the large ones, and what was freed between
    them is lost to those that follow. Nothing changes where the user has set this.
    """
    library = _c_library()
    is_set = any(name in os.environ for name in SETTINGS)
    is_set = is_set or "glibc.malloc" in os.environ.get(TUNABLES, "")
    if library is None or is_set or not hasattr(library, "mallopt"):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, LARGE_PIECE)
    try:
        yield
    finally:
        library.mallopt(MMAP_THRESHOLD, USUAL_LARGE_PIECE)
        library.mallopt(TRIM_THRESHOLD, 2 * USUAL_LARGE_PIECE)


def forget_pages(address: int, size: int) -> None:
    """Let the pages of a mapped file leave memory; whoever reads them again, reads the file again.

    Args:
        address, size: a stretch of the mapping, in bytes. Only pages that lie within it as a whole
            leave. Whatever was written to them is lost.
    """
    library = _c_library()
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if library is not None and length > 0:
        library.madvise(
            ctypes.c_void_p(first), ctypes.c_size_t(length), ctypes.c_int(mmap.MADV_DONTNEED)
        )


@functools.cache
def _c_library() -> Optional[Any]:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
