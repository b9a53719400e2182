"""Dictionaries whose symbols are integers, such as the intensities of images."""

import math

import torch
from fairseq.data import Dictionary
from torch import Tensor


def integer_values(dictionary: Dictionary) -> Tensor:
    """The integer of each type: float64 ``[V]``, NaN for special types and padding.

    Raises:
        ValueError: if the dictionary has other symbols.
    """
    values = torch.full((len(dictionary),), math.nan, dtype=torch.float64)
    for index in range(dictionary.nspecial, len(dictionary)):
        symbol = dictionary[index]
        if symbol.startswith("madeupword"):  # fairseq pads dictionaries to a multiple with these
            continue
        try:
            values[index] = int(symbol)
        except ValueError:
            raise ValueError(
                f"--acceptance distance: the target vocabulary must consist of integers, but has "
                f"{symbol!r}; use --acceptance exact or topk for words"
            ) from None
    return values
