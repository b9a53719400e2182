"""Rows of a cache change their places, by compiled code."""

import ctypes
from typing import Optional

import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library

# Two threads take longer to begin than one to move so little.
FEW_BYTES = 200_000


class RowMover:
    """Moves the rows of one cache; for one thread at a time."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._move = structures.Move(threads=library.address_of_threads())
        self._address = ctypes.byref(self._move)
        self._data: Optional[Tensor] = None
        self._slot_size = self._length_size = 0
        self._scratch = torch.empty(0, dtype=torch.uint8)

    @classmethod
    def of(cls, device: torch.device) -> Optional["RowMover"]:
        """The mover for a cache there; ``None`` for other devices than CPUs, or where nothing was
        compiled.
        """
        library = loading.library() if device.type == "cpu" else None
        return None if library is None else cls(library)

    def __call__(self, data: Tensor, order: Tensor, length: int, first: int = 0) -> None:
        """Row i becomes what row ``order[i]`` was; only rows that change are copied.

        Args:
            data: ``[layers, 2, slots, heads, length, head_dim]`` that lie side by side on a CPU.
            order: int64 ``[n]``.
            length: how far the rows are in use.
            first: the slot that counts as slot 0.

        Raises:
            IndexError: for rows that are not there.
            ValueError: for data or numbers that lie otherwise.
        """
        if data is not self._data:
            self._take(data)
        move, n_slots, order = self._move, data.size(2), order.contiguous()
        if not 0 <= first <= n_slots:
            raise IndexError(f"slot {first} of {n_slots}")
        move.n_threads = self._library.n_threads
        move.few_bytes = FEW_BYTES
        move.data = data.data_ptr() + first * move.slot
        move.n_slots = n_slots - first
        move.used = length * self._length_size
        move.n = n = order.numel()
        move.origins = problems.address(order, n, "order of rows")
        needed = self._library.move_scratch_size(self._address)
        if needed > self._scratch.numel():
            self._scratch = torch.empty(2 * needed, dtype=torch.uint8)
        move.scratch, move.scratch_size = self._scratch.data_ptr(), self._scratch.numel()
        problems.check(self._library.move_rows(self._address))

    def keep_paths(self, data: Tensor, starts: Tensor, path: Tensor, first: int = 0) -> None:
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
        if data is not self._data:
            self._take(data)
        own, (n_rows, n_path) = self._move, path.shape
        move = structures.PathMove(
            data=data.data_ptr(),
            n_parts=own.n_parts,
            n_slots=data.size(2),
            n_heads=own.n_heads,
            length=data.size(4),
            part=own.part,
            slot=own.slot,
            head=own.head,
            token=self._length_size,
            n_rows=n_rows,
            n_path=n_path,
            first_slot=first,
            starts=problems.address(starts, n_rows, "starts"),
            path=problems.address(path, n_rows * n_path, "path"),
        )
        problems.check(self._library.move_paths(ctypes.byref(move)))

    def _take(self, data: Tensor) -> None:
        """Note how a cache lies in memory."""
        if data.dim() != 6 or data.size(1) != 2 or not (data.is_cpu and data.is_contiguous()):
            raise ValueError(f"a cache {list(data.shape)} on {data.device}")
        size, move = data.element_size(), self._move
        n_layers, n_sides, _, n_heads, length, head_dim = data.shape
        self._length_size = head_dim * size
        move.n_parts, move.n_heads = n_layers * n_sides, n_heads
        move.head = length * self._length_size
        move.slot = n_heads * move.head
        move.part = data.size(2) * move.slot
        self._data = data
