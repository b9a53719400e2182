"""Which rows move when others leave."""

import torch
from torch import Tensor


def compaction(keep: Tensor) -> Tensor:
    """The order that closes the gaps of the dropped rows while moving as few rows as possible.

    Rows that stay below the new row count keep their place; the others fill the holes.

    Args:
        keep: bool ``[R]``, true for the rows that stay.

    Returns:
        int64 ``[R']`` with ``R' = keep.sum()``: the old index of each new row.
    """
    remaining = int(keep.sum())
    order = torch.arange(remaining, device=keep.device)
    holes = ~keep[:remaining]
    order[holes] = remaining + keep[remaining:].nonzero().squeeze(1)
    return order
