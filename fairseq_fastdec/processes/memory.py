"""Returns unused memory of the process to the system.

These functions do nothing on systems other than Linux with glibc.
"""

import contextlib
import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional

# Parameters of glibc's mallopt, and the environment variables for them.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")
TUNABLES = "GLIBC_TUNABLES"
LARGE_PIECE = 1 << 20
# The value to which glibc adapts in a process that has freed large pieces.
USUAL_LARGE_PIECE = 32 << 20


def trim() -> None:
    """Return freed memory to the system; glibc keeps it for later allocations otherwise."""
    library = _c_library()
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(ctypes.c_size_t(0))


@contextlib.contextmanager
def large_pieces_apart() -> Iterator[None]:
    """In this context, allocations of 1 MiB or more use separate pages, returned when freed.

    Otherwise small allocations that stay would fragment the memory between the large ones. Nothing
    changes if the user has set these parameters.
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
    """Drop pages of a mapped file from memory; later accesses read the file again.

    Args:
        address, size: a range of the mapping, in bytes. Only pages that are entirely within it are
            dropped. Anything written to them is lost.
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
