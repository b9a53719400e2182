"""Attention of a few new positions to many cached ones."""

import math
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional as F


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Optional[Tensor]) -> Tensor:
    """Scaled dot-product attention; the queries come scaled.

    Args:
        queries: ``[B, H, T, D]``.
        keys, values: ``[B, H, L, D]``. What is computed has the wider dtype of theirs and the
            queries'.
        mask: of their dtype, added to the scores, broadcastable to ``[B, H, T, L]``, or
            ``None``.

    Returns:
        ``[B, T, H * D]`` in the queries' dtype.
    """
    dtype = queries.dtype
    wider = torch.promote_types(dtype, keys.dtype)
    queries, keys, values = (x.to(wider) for x in (queries, keys, values))
    mask = None if mask is None else mask.to(wider)
    if queries.is_cuda or (queries.size(0) == 1 and queries.size(2) == 1):
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0)
    else:
        # On a CPU the fused kernel works through rows and heads one by one: for a handful of
        # queries a row, batched products take less time.
        out = _attend_by_products(queries, keys, values, mask)
    batch, heads, length, head_dim = out.shape
    return out.transpose(1, 2).reshape(batch, length, heads * head_dim).to(dtype)


def _attend_by_products(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Optional[Tensor]
) -> Tensor:
    batch, heads, n_new, head_dim = queries.shape
    queries, keys, values = (x.flatten(0, 1) for x in (queries, keys, values))
    if mask is not None and mask.size(0) == 1:
        scores = torch.baddbmm(mask[0], queries, keys.transpose(1, 2))
    else:
        scores = torch.bmm(queries, keys.transpose(1, 2))
        if mask is not None:
            scores.view(batch, heads, n_new, -1).add_(mask)
    softmax_dtype = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.softmax(dim=-1, dtype=softmax_dtype).to(values.dtype)
    return torch.bmm(weights, values).view(batch, heads, n_new, head_dim)


def causal_mask(
    past: Tensor, n_new: int, n_keys: int, dtype: torch.dtype, tokens_per_step: int = 1
) -> Tensor:
    """The new positions of ragged rows see their row's past, and themselves causally.

    Args:
        past: int64 ``[R]``, the valid length of each row before the new positions.
        tokens_per_step: so many neighbouring new positions see each other.

    Returns:
        additive mask ``[R, 1, n_new, n_keys]``: 0 where allowed, ``-inf`` elsewhere.
    """
    new = torch.arange(n_new, device=past.device)
    new = new // tokens_per_step * tokens_per_step + tokens_per_step - 1
    last_visible = (past[:, None] + new)[:, None, :, None]
    hidden = torch.arange(n_keys, device=past.device) > last_visible
    return additive(hidden, dtype)


def tree_mask(past: Tensor, sees: Tensor, n_keys: int, dtype: torch.dtype) -> Tensor:
    """The tokens of trees see their row's past, and the tokens on the path to them.

    Args:
        past: int64 ``[R]``, the valid length of each row before the new positions.
        sees: bool ``[R, n_new, n_new]``.

    Returns:
        additive mask ``[R, 1, n_new, n_keys]``
    """
    n_rows, n_new = sees.shape[:2]
    seen = torch.arange(n_keys, device=past.device) < past[:, None, None]
    seen = seen.repeat(1, n_new, 1)
    places = past[:, None, None] + torch.arange(n_new, device=past.device)
    seen.scatter_(2, places.expand(n_rows, n_new, n_new), sees)
    return additive(~seen[:, None], dtype)


class CausalMasks:
    """:func:`causal_mask` where all rows have one length: slices of a single table.

    To make a mask takes a dozen small operations, which count in a step of a small model.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, tokens_per_step: int = 1) -> None:
        self._dtype = dtype
        self._device = device
        self._tokens_per_step = tokens_per_step
        self._past = self._n_new = 0

    def of(self, past: int, n_new: int) -> Tensor:
        """``[1, 1, n_new, past + n_new]``, for rows of length ``past``."""
        if past > self._past or n_new > self._n_new:
            self._make(max(past, 2 * self._past), max(n_new, self._n_new))
        return self._table[:, :, :n_new, self._past - past : self._past + n_new]

    def _make(self, past: int, n_new: int) -> None:
        self._past, self._n_new = past, n_new
        lengths = torch.tensor([past], device=self._device)
        self._table = causal_mask(lengths, n_new, past + n_new, self._dtype, self._tokens_per_step)


def padding_mask(lengths: Tensor, n_keys: int, dtype: torch.dtype) -> Tensor:
    """Additive mask ``[S, 1, 1, n_keys]`` that hides what lies beyond each source's length."""
    hidden = torch.arange(n_keys, device=lengths.device) >= lengths[:, None]
    return additive(hidden[:, None, None, :], dtype)


def additive(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to be added to scores: 0, and ``-inf`` where ``hidden`` (bool, any shape)."""
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(
        hidden, -math.inf
    )
