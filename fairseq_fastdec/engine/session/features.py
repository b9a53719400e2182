"""The features that a decoder step returns, for all members of an ensemble."""

from typing import Any, List, Sequence, TypeVar, Union

import torch
from torch import Tensor


class Features:
    """One tensor ``[..., C]`` for each member; members may differ in C, and in nothing before it.

    Search rules index the features like a tensor, and hand them back to the session. They never see
    a single member's.
    """

    def __init__(self, of_members: Sequence[Tensor]) -> None:
        self.of_members: List[Tensor] = list(of_members)

    @property
    def shape(self) -> torch.Size:
        """The shape of every member's features, without C."""
        return self.of_members[0].shape[:-1]

    def __getitem__(self, index: Any) -> "Features":
        """The same part of every member's features."""
        return Features([member[index] for member in self.of_members])

    def of_slots(self, slots: Tensor) -> "Features":
        """Some of each row's ``[R, W, C]``: those at ``slots``, int64 ``[R, K]``."""
        rows = torch.arange(slots.size(0), device=slots.device)[:, None]
        return self[rows, slots]

    def flattened(self) -> "Features":
        """``[R, T, C]`` as ``[R * T, C]``."""
        return Features([member.flatten(0, 1) for member in self.of_members])


Rowwise = TypeVar("Rowwise", Tensor, Features)


def at(values: Rowwise, positions: Union[int, Tensor]) -> Rowwise:
    """The values at one position of each row: ``[R, ...]``.

    Args:
        values: ``[R, T, ...]``.
        positions: the same number for all rows, or int64 ``[R]``.
    """
    if isinstance(positions, int):
        return values[:, positions]
    return values[torch.arange(positions.numel(), device=positions.device), positions]
