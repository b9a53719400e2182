"""The best token of many distributions."""

from typing import Tuple

import torch
from torch import Tensor

# On a CPU torch vectorises amax, and neither max nor argmax. So amax finds the best chunk, and only
# that chunk is searched. For few scores the additional calls cost more.
CHUNK = 64
MIN_SCORES = 50_000


def first_maximum(scores: Tensor) -> Tuple[Tensor, Tensor]:
    """``scores.max(dim=-1)``; of equal ones the first.

    Args:
        scores: ``[..., V]``

    Returns:
        values and int64 indices, ``[...]``
    """
    n_types = scores.size(-1)
    if scores.is_cuda or scores.numel() < MIN_SCORES or n_types < 2 * CHUNK:
        return scores.max(dim=-1)
    whole = n_types // CHUNK * CHUNK
    best = scores[..., :whole].unflatten(-1, (-1, CHUNK)).amax(dim=-1)
    if whole < n_types:
        best = torch.cat([best, scores[..., whole:].amax(dim=-1, keepdim=True)], dim=-1)
    values, chunk = best.max(dim=-1)
    first = chunk[..., None] * CHUNK
    positions = first + torch.arange(CHUNK, device=scores.device)
    in_chunk = scores.gather(-1, positions.clamp(max=n_types - 1)).argmax(dim=-1)
    return values, first.squeeze(-1) + in_chunk
