"""Why compiled code refuses a call, and how it is given numbers in memory."""

from typing import Optional

import torch
from torch import Tensor

# The numbers are those of cpp/checks.h.
OUT_OF_SCRATCH = 6
PROBLEMS = {
    1: IndexError("tokens that are not in the dictionary"),
    2: ValueError("a tree whose tokens do not follow earlier ones, or too many in a row"),
    3: ValueError("sizes that do not fit together"),
    4: IndexError("rows or sources that are longer than the memory for their keys"),
    5: IndexError("rows or sources that are not there"),
    OUT_OF_SCRATCH: ValueError("too little scratch memory"),
}


def check(problem: int) -> None:
    """Raise the error for what a compiled function returned, unless it returned 0."""
    if problem:
        known = PROBLEMS[problem]
        raise type(known)(*known.args)


def address(numbers: Tensor, n: int, what: str, dtype: torch.dtype = torch.int64) -> int:
    """The address of n numbers that lie side by side on the CPU.

    Raises:
        ValueError: if there are more or fewer numbers, or they are of another dtype or lie
            otherwise; the message begins with ``what`` they are.
    """
    fits = numbers.dtype is dtype and numbers.numel() == n
    if not (fits and numbers.is_cpu and numbers.is_contiguous()):
        raise ValueError(
            f"{what}: {numbers.dtype} {list(numbers.shape)} on {numbers.device}, where compiled "
            f"code reads {n} of {dtype} that lie side by side on the CPU"
        )
    return numbers.data_ptr()


def flags(of_states: Optional[Tensor], n: int, what: str) -> Optional[int]:
    """The address of n flags, bool; ``None`` for none; and errors, as of :func:`address`."""
    return None if of_states is None else address(of_states, n, what, torch.bool)
