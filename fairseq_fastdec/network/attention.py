"""Attention of new tokens, and the masks of the keys that they see."""

import torch
from torch import Tensor
from torch.nn import functional as F


def attend(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor, n_heads: int) -> Tensor:
    """Multi-head scaled dot-product attention.

    Args:
        queries: ``[R, T, E]``; E is the size of all heads together.
        keys, values: ``[R, L, E]``.
        visible: bool, ``[R, T, L]`` or ``[R, 1, L]``: which keys each query attends to.

    Returns:
        ``[R, T, E]``
    """
    q, k, v = (x.unflatten(-1, (n_heads, -1)).transpose(1, 2) for x in (queries, keys, values))
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=visible[:, None])
    return found.transpose(1, 2).flatten(2)


def sees_in_chain(n_new: int, tokens_per_step: int, device: torch.device) -> Tensor:
    """The mask of a chain: new tokens see earlier ones, and all tokens of their step.

    Returns:
        bool ``[1, T, T]``: entry ``[0, t, u]`` is true if token t sees token u.
    """
    step = torch.arange(n_new, device=device) // tokens_per_step
    return (step <= step[:, None])[None]


def sees_in_tree(parents: Tensor) -> Tensor:
    """The mask of a tree: new tokens see themselves and their ancestors.

    Args:
        parents: int64 ``[R, T]``, the index of each token's parent, smaller than the token's index;
            -1 for tokens that follow the row itself.

    Returns:
        bool ``[R, T, T]``: entry ``[r, t, u]`` is true if token t sees token u.
    """
    n_rows, n_new = parents.shape
    rows = torch.arange(n_rows, device=parents.device)
    sees = torch.eye(n_new, dtype=torch.bool, device=parents.device).repeat(n_rows, 1, 1)
    for token in range(1, n_new):
        parent = parents[:, token]
        of_parent = sees[rows, parent.clamp(min=0)] & parent.ge(0)[:, None]
        sees[:, token] |= of_parent
    return sees


def visible_keys(lengths: Tensor, sees: Tensor, n_keys: int) -> Tensor:
    """The mask of keys: new tokens see all earlier tokens of their row, and new ones by ``sees``.

    Args:
        lengths: int64 ``[R]``, the length of each row; the keys of its new tokens follow.
        sees: bool ``[R, T, T]`` or ``[1, T, T]``.
        n_keys: L, the number of keys.

    Returns:
        bool ``[R, T, L]``
    """
    n_rows, n_new = lengths.numel(), sees.size(1)
    earlier = torch.arange(n_keys, device=lengths.device) < lengths[:, None, None]
    places = lengths[:, None, None] + torch.arange(n_new, device=lengths.device)
    shape = (n_rows, n_new, n_new)
    return earlier.repeat(1, n_new, 1).scatter(2, places.expand(shape), sees.expand(shape))
