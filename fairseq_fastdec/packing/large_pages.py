"""Allocates memory for weights, in pages of 2 MiB if the system supports them.

A step reads all weights once, mostly from main memory. With pages of 4 KiB, the processor has to
look up the address of each page in memory, too, and prefetches nothing beyond the end of a page.
"""

import mmap
import threading
from typing import Optional

import torch
from torch import Tensor

PAGE = 2 << 20
# Small tensors share a region, which is freed together with the last of them.
REGION = 8 * PAGE
# Tensors are aligned to cache lines.
LINE = 64


class LargePages:
    """Allocates tensors consecutively in regions of large pages. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free = torch.empty(0, dtype=torch.uint8)

    def empty(self, n: int, dtype: torch.dtype) -> Tensor:
        """An uninitialised CPU tensor ``[n]``, like :func:`torch.empty`."""
        n_bytes = n * dtype.itemsize
        with self._lock:
            if self._free.numel() < n_bytes:
                region = _region(max(REGION, -(-n_bytes // PAGE) * PAGE))
                if region is None:
                    return torch.empty(n, dtype=dtype)
                self._free = region
            taken = self._free[:n_bytes]
            self._free = self._free[-(-n_bytes // LINE) * LINE :]
        return taken.view(dtype)


def _region(n_bytes: int) -> Optional[Tensor]:
    """A tensor of ``n_bytes`` in large pages; ``None`` if the system has none."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    # Private memory: by default, Linux does not use large pages for shared memory.
    memory = mmap.mmap(-1, n_bytes + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    begin = -whole.data_ptr() % PAGE
    try:
        memory.madvise(mmap.MADV_HUGEPAGE, begin, n_bytes)
    except OSError:  # a kernel without large pages
        return None
    return whole[begin : begin + n_bytes]


WEIGHTS = LargePages()
