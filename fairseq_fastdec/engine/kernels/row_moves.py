"""Rows of a cache change their places, by compiled code."""

import ctypes
from typing import Optional

import numpy as np
import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library

# Two threads take longer to begin than one to move so little.
FEW_BYTES = 200_000


class RowMover:
    """Moves the rows of one cache; for one thread at a time.

    Its scratch memory is kept: to ask for memory takes longer than to copy it.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._scratch = torch.empty(0, dtype=torch.uint8)

    @classmethod
    def of(cls, device: torch.device) -> Optional["RowMover"]:
        """The mover for a cache there; ``None`` for other devices than CPUs, or where nothing was
        compiled.
        """
        library = loading.library() if device.type == "cpu" else None
        return None if library is None else cls(library)

    def __call__(self, data: Tensor, origins: np.ndarray, places: np.ndarray) -> None:
        """The rows at ``places`` become what those at ``origins`` were.

        Args:
            data: ``[layers, 2, slots, heads, length, head_dim]`` on a CPU, whose last two
                dimensions lie together.
            origins, places: int64 ``[n]``; no place twice.

        Raises:
            IndexError: for rows that are not there.
            ValueError: for data or numbers that lie otherwise.
        """
        size = data.element_size()
        n_layers, n_sides, n_slots, n_heads, length, head_dim = data.shape
        strides = data.stride()
        by_parts = n_sides == 2 and strides[0] == 2 * strides[1]
        if strides[4:] != (head_dim, 1) or not by_parts or not data.is_cpu:
            raise ValueError(f"a cache {list(data.shape)} on {data.device} with strides {strides}")
        used = length * head_dim * size
        moved = origins.size * n_heads * used
        n_threads = 1 if 2 * n_layers * moved < FEW_BYTES else self._library.n_threads
        if self._scratch.numel() < n_threads * moved:
            self._scratch = torch.empty(2 * n_threads * moved, dtype=torch.uint8)
        part, slot, head = (size * stride for stride in strides[1:4])
        move = structures.Move(
            threads=self._library.address_of_threads(),
            n_threads=n_threads,
            data=data.data_ptr(),
            n_parts=2 * n_layers,
            n_slots=n_slots,
            n_heads=n_heads,
            part=part,
            slot=slot,
            head=head,
            used=used,
            origins=problems.address(torch.from_numpy(origins), origins.size, "origins"),
            places=problems.address(torch.from_numpy(places), origins.size, "places"),
            n=origins.size,
            scratch=self._scratch.data_ptr(),
        )
        problems.check(self._library.move_rows(ctypes.byref(move)))
