"""Tokens that hypothesis draws."""

import torch
from hypothesis import strategies as st

# EOS and a few words, so that words repeat.
LEAST, MOST = 2, 6


def draw_tokens(data, *shape):
    """Draw an int64 tensor of the given shape."""
    size = torch.Size(shape).numel()
    values = data.draw(st.lists(st.integers(LEAST, MOST), min_size=size, max_size=size))
    return torch.tensor(values, dtype=torch.long).view(shape)
