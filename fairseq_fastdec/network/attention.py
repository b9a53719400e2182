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


def visible_keys(lengths: Tensor, n_new: int, n_keys: int, tokens_per_step: int) -> Tensor:
    """The mask of keys: new tokens see all earlier tokens of their row, and all of their step.

    Args:
        lengths: int64 ``[R]``, the length of each row; the keys of its T new tokens follow.
        n_new: T.
        n_keys: L, the number of keys.

    Returns:
        bool ``[R, T, L]``
    """
    keys, new = (torch.arange(n, device=lengths.device) for n in (n_keys, n_new))
    n_visible = lengths[:, None] + (new // tokens_per_step + 1) * tokens_per_step
    return keys < n_visible[:, :, None]
