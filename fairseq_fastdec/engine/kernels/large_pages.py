"""Memory for weights, in pages of 2 MiB where the system has them.

A step reads all weights once, and mostly from memory. In pages of 4 KiB the processor looks up the
address of each of them in tables that lie in memory, too, and asks for nothing beyond the end of a
page in advance.
"""

import mmap
import threading
from typing import Optional

import torch
from torch import Tensor

PAGE = 2 << 20
# Small tensors share a region, which is freed when none of them is left.
REGION = 8 * PAGE
# Tensors begin with a line of the caches.
LINE = 64


class LargePages:
    """Gives memory for tensors one behind the other, in regions of large pages.

    Several threads may ask at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free = torch.empty(0, dtype=torch.uint8)

    def empty(self, n: int, dtype: torch.dtype) -> Tensor:
        """A tensor ``[n]`` on the CPU, of any contents, as :func:`torch.empty` gives it."""
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
    """So many bytes that begin with a large page; ``None`` where there are no such pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    # What processes share is never in large pages, unless the system's owner says so.
    memory = mmap.mmap(-1, n_bytes + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    begin = -whole.data_ptr() % PAGE
    try:
        memory.madvise(mmap.MADV_HUGEPAGE, begin, n_bytes)
    except OSError:  # the system was built without them
        return None
    return whole[begin : begin + n_bytes]


WEIGHTS = LargePages()
