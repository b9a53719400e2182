"""Keys and values that outlive a step: of the rows (self-attention) and of the sources (cross)."""

from typing import Tuple

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values of all layers, ``[layers, 2, slots, heads, length, head_dim]``.

    A slot is a row (self-attention) or a source sentence (cross-attention). What lies beyond a
    slot's valid length is garbage, but finite: it is masked out, and 0 times NaN would not be 0.
    Capacity grows by doubling and is never given back, so that a steady stream allocates nothing.
    """

    def __init__(self, n_layers: int, n_heads: int, head_dim: int, like: Tensor) -> None:
        self._data = like.new_zeros(n_layers, 2, 0, n_heads, 0, head_dim)

    def reserve(self, slots: int, length: int) -> None:
        """Make room for so many slots of such length; what is stored stays."""
        n_layers, _, slots_now, n_heads, length_now, head_dim = self._data.shape
        if slots <= slots_now and length <= length_now:
            return
        old = self._data
        self._data = old.new_zeros(
            n_layers,
            2,
            _grown(slots_now, slots),
            n_heads,
            _grown(length_now, length),
            head_dim,
        )
        self._data[:, :, :slots_now, :, :length_now] = old

    def write(self, layer: int, slots: slice, start: int, key_values: Tensor) -> None:
        """Store ``[n, T, 2, H, D]`` at positions ``start...`` of consecutive slots."""
        stop = start + key_values.size(1)
        self._data[layer, :, slots, :, start:stop] = key_values.permute(2, 0, 3, 1, 4)

    def write_ragged(self, layer: int, positions: Tensor, key_values: Tensor) -> None:
        """Store ``[R, T, 2, H, D]`` at each slot's own ``positions`` ``[R, T]``."""
        slots = torch.arange(positions.size(0), device=positions.device)[:, None]
        self._data[layer][:, slots, :, positions] = key_values

    def read(self, layer: int, slots: int, length: int) -> Tuple[Tensor, Tensor]:
        """Views of the keys and the values, ``[slots, H, length, D]`` each."""
        keys, values = self._data[layer, :, :slots, :, :length].unbind(0)
        return keys, values

    def rearrange(self, order: Tensor, length: int) -> None:
        """Slot i becomes what slot ``order[i]`` was; only slots that change are copied."""
        moved = (order != torch.arange(order.numel(), device=order.device)).nonzero().squeeze(1)
        if moved.numel() == 0:
            return
        self.reserve(order.numel(), length)
        used = self._data[:, :, :, :, :length]
        used[:, :, moved] = used[:, :, order[moved]]


def _grown(now: int, needed: int) -> int:
    return now if needed <= now else max(needed, 2 * now)
