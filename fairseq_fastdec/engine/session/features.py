"""What a decoder step gives, of all members of an ensemble."""

from typing import Any, List, Sequence, TypeVar, Union

import torch
from torch import Tensor


class Features:
    """One tensor ``[..., C]`` for each member; C may differ, everything before it does not.

    Search rules take parts of it as of a tensor, and hand it back to the session. They never see a
    member's own.
    """

    def __init__(self, of_members: Sequence[Tensor]) -> None:
        self.of_members: List[Tensor] = list(of_members)

    @property
    def shape(self) -> torch.Size:
        """Without C."""
        return self.of_members[0].shape[:-1]

    def __getitem__(self, index: Any) -> "Features":
        """The same part of each member's."""
        return Features([member[index] for member in self.of_members])

    def token_by_token(self) -> "Features":
        """``[R, T, C]`` as ``[T * R, C]``: all rows' first tokens, then all rows' second ones."""
        return Features([member.transpose(0, 1).flatten(0, 1) for member in self.of_members])


Rowwise = TypeVar("Rowwise", Tensor, Features)


def at(values: Rowwise, positions: Union[int, Tensor]) -> Rowwise:
    """What ``[R, T, ...]`` hold at one position of each row, the same or ``[R]``: ``[R, ...]``."""
    if isinstance(positions, int):
        return values[:, positions]
    return values[torch.arange(positions.numel(), device=positions.device), positions]
