"""Attention of new tokens, and the masks of the keys that they see."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, n_heads: int) -> Tensor:
    """Multi-head scaled dot-product attention.

    Args:
        queries: ``[R, T, E]``; E is the size of all heads together.
        keys, values: ``[R, L, E]``.
        mask: ``[R, T, L]`` or ``[R, 1, L]``, from :func:`mask_of`.

    Returns:
        ``[R, T, E]``
    """
    q, k, v = (x.unflatten(-1, (n_heads, -1)).transpose(1, 2) for x in (queries, keys, values))
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
    return found.transpose(1, 2).flatten(2)


def mask_of(hidden: Tensor, like: Tensor) -> Tensor:
    """The mask that is added to the scores of keys: ``-inf`` for hidden ones, 0 for others.

    torch would convert a bool mask in each attention.

    Args:
        hidden: bool, of any shape: which keys a query does not attend to.
        like: a tensor with the dtype of queries.
    """
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -math.inf)


def hidden_keys(places: Tensor, n_keys: int, tokens_per_step: int) -> Tensor:
    """The keys that new tokens do not see: those after their step, and after their row.

    Args:
        places: int64 ``[R, T]``, the positions of the new tokens; the first begins a step.
        n_keys: L, the number of keys.

    Returns:
        bool ``[R, T, L]``
    """
    last = places
    if tokens_per_step > 1:
        new = torch.arange(places.size(1), device=places.device)
        last = places + (tokens_per_step - 1 - new % tokens_per_step)
    return torch.arange(n_keys, device=places.device) > last[:, :, None]
