"""Rows of a cache change their places, by compiled code."""

import ctypes
from typing import Optional, Tuple

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
        n_layers, _, n_slots, n_heads, length, head_dim = data.shape
        strides = _strides_of(data)
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

    def keep_paths(self, data: Tensor, starts: Tensor, path: Tensor, first: int) -> None:
        """From its start on, each slot holds what now lies at the places of its path behind it.

        Args:
            data: as in a call.
            starts: int64 ``[n]``, of consecutive slots.
            path: int64 ``[n, D]``, distances from the start, each larger than the one before. What
                lies at others stays.
            first: the slot that counts as slot 0.

        Raises:
            IndexError: for slots that are not there, or not so long.
            ValueError: for data or numbers that lie otherwise.
        """
        size = data.element_size()
        n_layers, _, n_slots, n_heads, length, head_dim = data.shape
        n_rows, n_path = path.shape
        part, slot, head, token = (size * stride for stride in _strides_of(data)[1:5])
        move = structures.PathMove(
            data=data.data_ptr(),
            n_parts=2 * n_layers,
            n_slots=n_slots,
            n_heads=n_heads,
            length=length,
            part=part,
            slot=slot,
            head=head,
            token=token,
            n_rows=n_rows,
            n_path=n_path,
            first_slot=first,
            starts=problems.address(starts, n_rows, "starts"),
            path=problems.address(path, n_rows * n_path, "path"),
        )
        problems.check(self._library.move_paths(ctypes.byref(move)))


def _strides_of(data: Tensor) -> Tuple[int, ...]:
    """The strides of a cache.

    Raises:
        ValueError: if it lies otherwise than compiled code expects.
    """
    strides = data.stride()
    by_parts = data.size(1) == 2 and strides[0] == 2 * strides[1]
    if strides[4:] != (data.size(5), 1) or not by_parts or not data.is_cpu:
        raise ValueError(f"a cache {list(data.shape)} on {data.device} with strides {strides}")
    return strides
