"""Keys and values that outlive a step: of the rows (self-attention) and of the sources (cross)."""

import math
from typing import NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from ..kernels.row_moves import RowMover

# To move so few numbers takes numpy less time than torch takes to begin.
FEW = 1 << 16


class KeyValueCache:
    """Keys and values of all layers, ``[layers, 2, slots, heads, length, head_dim]``.

    A slot is a row (self-attention) or a source sentence (cross-attention). What lies beyond a
    slot's valid length is garbage, but finite: it is masked out, and 0 times NaN would not be 0.
    Capacity grows by doubling. Where one side of the slots x length rectangle has to grow, the
    other is cut to what is in use: first a few long rows and then many short ones never make a
    rectangle of many long ones. Rectangles take turns in two stretches of memory, which are kept:
    to give memory back and ask for it again takes longer than to write to it.
    """

    def __init__(
        self,
        n_layers: int,
        n_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
        rounded_to: Optional[torch.dtype] = None,
    ) -> None:
        """
        Args:
            rounded_to: what is written is rounded to this dtype, and kept in the other one.
        """
        self._rounded_to = rounded_to or dtype
        self._data = torch.zeros(n_layers, 2, 0, n_heads, 0, head_dim, dtype=dtype, device=device)
        self._memory = self._spare = self._data.flatten()
        self._n_slots = self._length = 0
        # numpy has neither a GPU's numbers nor bf16.
        self._is_numpys = self._data.is_cpu and dtype == self._rounded_to == torch.float32
        self._array: Optional[np.ndarray] = None
        self._mover = RowMover.of(device)
        # Layers are read and written one by one, at the same place: their views are made together.
        self._readable = self._writable = _Views()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which keys and values are kept; whatever is written is converted to it."""
        return self._data.dtype

    @property
    def place(self) -> Tuple[int, torch.Size]:
        """Where everything lies: as long as it stays the same, so do the addresses of all views."""
        return self._data.data_ptr(), self._data.shape

    @property
    def storage(self) -> Tensor:
        """The tensor that holds everything; another one when a place has changed."""
        return self._data

    @property
    def length(self) -> int:
        """So many tokens of each slot have room."""
        return self._length

    def reserve(self, slots: int, length: int) -> None:
        """Make room for so many slots of such length; what is stored within them stays."""
        if slots <= self._n_slots and length <= self._length:
            return
        n_layers, _, slots_now, n_heads, length_now, head_dim = self._data.shape
        old = self._data[:, :, :slots, :, :length]
        rows, positions = _resized(slots_now, slots), _resized(length_now, length)
        self._data = self._room_for((n_layers, 2, rows, n_heads, positions, head_dim))
        self._data[:, :, : old.size(2), :, : old.size(4)] = old
        self._n_slots, self._length = rows, positions
        self._array = None
        self._readable = self._writable = _Views()

    def _room_for(self, shape: Tuple[int, ...]) -> Tensor:
        """The stretch of memory that is not in use, longer if it has to be, in another shape."""
        size = math.prod(shape)
        if self._spare.numel() < size:
            self._spare = self._data.new_zeros(size)
        self._memory, self._spare = self._spare, self._memory
        return self._memory[:size].view(shape)

    def _rounded(self, key_values: Tensor) -> Tensor:
        """Keys and values, rounded unless copying them to the cache rounds them."""
        return key_values if self._rounded_to == self.dtype else key_values.to(self._rounded_to)

    def write(self, layer: int, slots: slice, start: int, key_values: Tensor) -> None:
        """Store ``[n, T, 2, H, D]`` at positions ``start...`` of consecutive slots."""
        place = (slots.start, slots.stop, start, start + key_values.size(1))
        if place != self._writable.place:
            self._writable = _Views(place, self._at(*place).unbind(0))
        self._writable.of_layer[layer].copy_(self._rounded(key_values).permute(2, 0, 3, 1, 4))

    def write_all(self, slots: slice, key_values: Tensor) -> None:
        """Store ``[n, T, layers, 2, H, D]`` from the first position of consecutive slots on."""
        length, order = key_values.size(1), (2, 3, 0, 4, 1, 5)
        if self._is_numpys and key_values.numel() <= FEW:
            if self._array is None:
                self._array = self._data.numpy()
            self._array[:, :, slots, :, :length] = key_values.numpy().transpose(order)
            return
        place = (slots.start, slots.stop, 0, length)
        self._at(*place).copy_(self._rounded(key_values).permute(order))

    def write_ragged(self, layer: int, slots: slice, positions: Tensor, key_values: Tensor) -> None:
        """Store ``[n, T, 2, H, D]`` at each of n slots' own ``positions`` ``[n, T]``."""
        rows = torch.arange(slots.start, slots.stop, device=positions.device)[:, None]
        key_values = self._rounded(key_values).to(self._data.dtype)
        self._data[layer][:, rows, :, positions] = key_values

    def read(self, layer: int, slots: slice, length: int) -> Tuple[Tensor, Tensor]:
        """Views of the keys and the values, ``[n, H, length, D]`` each."""
        place = (slots.start, slots.stop, 0, length)
        if place != self._readable.place:
            keys_values = self._at(*place).flatten(0, 1).unbind(0)
            self._readable = _Views(place, tuple(zip(keys_values[::2], keys_values[1::2])))
        return self._readable.of_layer[layer]

    def _at(self, first: int, last: int, start: int, stop: int) -> Tensor:
        return self._data[:, :, first:last, :, start:stop]

    def rearrange(self, order: Tensor, length: int, first: int = 0) -> None:
        """Slot i becomes what slot ``order[i]`` was; only slots that change are copied.

        Args:
            order: int64 ``[n]``; there must be room for n slots.
            length: how far the slots are in use.
            first: the slot that counts as slot 0.
        """
        if self._mover is not None:
            self._mover(self._data, order, length, first)
            return
        used = self._data[:, :, first:, :, :length]
        moved = (order != torch.arange(order.numel(), device=order.device)).nonzero().squeeze(1)
        if moved.numel() == 0:
            return
        source = order[moved]
        if used.is_cuda:
            used[:, :, moved] = used[:, :, source]
            return
        # On a CPU what is gathered from one layer's keys or values is still in the processor's
        # cache when it is written.
        for layer in used:
            for part in layer:
                part[moved] = part.index_select(0, source)

    def gather(self, starts: Tensor, path: Tensor, first: int = 0) -> None:
        """From its start on, each slot holds what now lies at the places of its path behind it.

        Args:
            starts: int64 ``[n]``, of consecutive slots.
            path: int64 ``[n, D]``, distances from the start.
            first: the slot that counts as slot 0.
        """
        if path.numel() == 0:
            return
        if self._mover is not None:
            self._mover.keep_paths(self._data, starts, path.contiguous(), first)
            return
        steps = torch.arange(path.size(1), device=path.device)
        moved = (path != steps).any(dim=1).nonzero().squeeze(1)
        if moved.numel() == 0:
            return
        rows, starts = (first + moved)[:, None], starts[moved, None]
        used = self._data.permute(2, 4, 0, 1, 3, 5)
        used[rows, starts + steps] = used[rows, starts + path[moved]]


class _Views(NamedTuple):
    """Views of one place in each layer: keys and values together, or apart."""

    place: Tuple[int, ...] = ()
    of_layer: Sequence[Union[Tensor, Tuple[Tensor, Tensor]]] = ()


def _resized(now: int, needed: int) -> int:
    if needed > now:
        return max(needed, 2 * now)
    return min(now, 2 * needed)
