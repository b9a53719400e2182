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


def inheritance(parents: Tensor, n_rows: int) -> Tensor:
    """The order in which children take rows so that few rows move.

    The first child of a row takes that row over, if it is still there among as many rows as there
    are children; the other children fill what is left, in their order.

    Args:
        parents: int64 ``[..., R']``, the row that each child continues; all but the last dimension
            are groups of rows that do not mix.
        n_rows: R, the number of rows of a group now.

    Returns:
        int64 ``[..., R']``: which child each new row holds.
    """
    n = parents.size(-1)
    if n == 1:  # narrow beams ask at every step
        return torch.zeros_like(parents)
    index = torch.arange(n, device=parents.device).expand_as(parents)
    heirs = parents.new_full((*parents.shape[:-1], max(n_rows, n)), n)
    heirs.scatter_reduce_(-1, parents, index, "amin")
    heirs = heirs[..., :n]
    inherited = heirs < n
    # One place more, for the rows that nobody inherits.
    is_heir = torch.zeros(*parents.shape[:-1], n + 1, dtype=torch.bool, device=parents.device)
    is_heir.scatter_(-1, heirs, True)
    others = is_heir[..., :n].long().argsort(dim=-1, stable=True)
    rank = (~inherited).long().cumsum(dim=-1) - 1
    return torch.where(inherited, heirs, others.gather(-1, rank.clamp(min=0)))
