"""Small numbers of tokens and rows, without what torch takes to begin."""

from functools import lru_cache
from itertools import chain
from typing import Tuple

import numpy as np
import torch
from torch import Tensor

# Python looks through so few numbers before torch has begun.
FEW = 64


def first_numbers(n: int, device: torch.device) -> Tensor:
    """0, 1, ... n - 1, int64 ``[n]``: only to be read, for others may be given the same tensor."""
    return _kept(n, device) if n <= FEW else torch.arange(n, device=device)


@lru_cache(maxsize=2 * FEW)
def _kept(n: int, device: torch.device) -> Tensor:
    return torch.arange(n, device=device)


@lru_cache(maxsize=None)
def nothing(dtype: torch.dtype, device: torch.device) -> Tensor:
    """No number, ``[0]``: only to be read, as others may be given the same tensor."""
    return torch.empty(0, dtype=dtype, device=device)


def filled(shape: Tuple[int, ...], number: int, device: torch.device) -> Tensor:
    """The same number everywhere: int64."""
    if device.type == "cpu":
        return torch.from_numpy(np.full(shape, number, dtype=np.int64))
    return torch.full(shape, number, device=device)


@lru_cache(maxsize=1024)
def _few_alike(n: int, number: int, device: torch.device) -> Tensor:
    return filled((n,), number, device)


def alike(n: int, number: int, device: torch.device) -> Tensor:
    """The same number n times, int64 ``[n]``: only to be read, like :func:`first_numbers`."""
    return _few_alike(n, number, device) if n <= FEW else filled((n,), number, device)


def count_tokens(tokens: Tensor, pad: int) -> Tensor:
    """The tokens ``[B, S]`` of each row that are no padding: int64 ``[B]``, only to be read."""
    if tokens.is_cpu and tokens.numel() <= FEW:
        n_rows, width = tokens.shape
        if n_rows == 1:
            return alike(1, width - tokens.tolist()[0].count(pad), tokens.device)
        return torch.tensor([width - row.count(pad) for row in tokens.tolist()], dtype=torch.long)
    return tokens.ne(pad).sum(dim=1)


def extremes(numbers: Tensor) -> Tuple[int, int]:
    """The smallest and the largest of integers of any shape; 0 and 0 if there are none."""
    if numbers.numel() == 0:
        return 0, 0
    if numbers.is_cpu and numbers.numel() <= FEW:
        if numbers.dim() == 2:
            known = [*chain.from_iterable(numbers.tolist())]
        else:
            known = numbers.flatten().tolist()
        return min(known), max(known)
    least, most = torch.stack(numbers.aminmax()).tolist()
    return least, most
