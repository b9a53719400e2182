"""The places where attention looks before the base has learned anything.

Fairseq's sinusoidal positions are waves. Some intensities of one patch are much alike, so a small
model learns late that the source's pixel of the same position tells more than the one on the left.
Here a head of each layer begins with its eyes on that position, and one on the pixel above; all
else begins at random, and all of it learns.
"""

import math

import torch

from examples.common.deeper import LAYERS, State

from .patches import HIGH

# The quickest waves of positions, which the embeddings of intensities leave free.
N_WAVES = 16
HEAD_DIM = 2 * N_WAVES
SHARPNESS = 2.3
# A position holds the pixel before it.
ABOVE = 1 - HIGH


def look(state: State) -> State:
    """Let the first head of every attention of the decoder begin with its eyes on one position."""
    attentions = sorted(name for name in state if name.endswith("attn.q_proj.weight"))
    for name in attentions:
        if name.startswith(LAYERS):
            offset = 0 if ".encoder_attn." in name else ABOVE
            _look_at(state, name.removesuffix("q_proj.weight"), offset)
    return state


def _look_at(state: State, attention: str, offset: int) -> None:
    """Let the first head's query at position t be what its key is at position t + offset."""
    for kind, shift in (("q", offset), ("k", 0)):
        weight, bias = (state[f"{attention}{kind}_proj.{part}"] for part in ("weight", "bias"))
        weight[:HEAD_DIM] = SHARPNESS * shifted_waves(weight.size(1), shift)
        bias[:HEAD_DIM] = 0


def shifted_waves(dim: int, shift: int) -> torch.Tensor:
    """The matrix that takes the waves of a position to the quickest ones of position + shift.

    Returns:
        float32 ``[2 * N_WAVES, dim]``, for positions of sines, then cosines, ``[dim]``.
    """
    half = dim // 2
    # As in fairseq's SinusoidalPositionalEmbedding.
    angles = shift * torch.exp(torch.arange(N_WAVES) * -(math.log(10000) / (half - 1)))
    sines, cosines = torch.arange(N_WAVES), half + torch.arange(N_WAVES)
    matrix = torch.zeros(2 * N_WAVES, dim)
    rows = torch.arange(N_WAVES)
    matrix[rows, sines], matrix[rows, cosines] = angles.cos(), angles.sin()
    matrix[N_WAVES + rows, cosines], matrix[N_WAVES + rows, sines] = angles.cos(), -angles.sin()
    return matrix
