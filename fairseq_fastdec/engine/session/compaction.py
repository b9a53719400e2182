"""Orders of rows that move as few of them as possible."""

import numpy as np
import torch
from torch import Tensor


def compaction(keep: Tensor) -> Tensor:
    """The order that closes the gaps of the dropped rows while moving as few rows as possible.

    Rows that stay below the new row count keep their place; the others fill the holes.

    Args:
        keep: bool ``[R]``, true for the rows that stay.

    Returns:
        the old index of each new row, int64 ``[R']`` with ``R' = keep.sum()``
    """
    remaining = int(keep.sum())
    order = torch.arange(remaining, device=keep.device)
    holes = ~keep[:remaining]
    order[holes] = remaining + keep[remaining:].nonzero().squeeze(1)
    return order


def inheritance(parents: np.ndarray, n_rows: int) -> np.ndarray:
    """The order in which children take rows so that few rows move.

    The first child of a row takes that row over, if it is still there among as many rows as there
    are children; the other children fill what is left, in their order.

    Args:
        parents: int64 ``[R']``, the row that each child continues.
        n_rows: R, the number of rows now.

    Returns:
        int64 ``[R']``: which child each new row holds.
    """
    n = parents.size
    heirs = np.full(max(n_rows, n), n)
    # Where a row has several children, the one that is written last stays: the first child.
    heirs[parents[::-1]] = np.arange(n)[::-1]
    heirs = heirs[:n]
    is_heir = np.zeros(n + 1, dtype=bool)
    is_heir[heirs] = True
    heirs[heirs == n] = (~is_heir[:n]).nonzero()[0]
    return heirs
