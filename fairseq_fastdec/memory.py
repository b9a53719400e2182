"""Memory that the process holds and no longer needs goes back to the system.

Both functions do nothing where the system is not Linux with glibc.
"""

import ctypes
import functools
import mmap
import sys
from typing import Any, Optional


def trim() -> None:
    """Give back what was freed; glibc keeps it for the next time that somebody asks."""
    library = _c_library()
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(ctypes.c_size_t(0))


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


@functools.lru_cache(maxsize=None)
def _c_library() -> Optional[Any]:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
