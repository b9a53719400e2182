"""Initialises attention to useful positions before training.

Fairseq's sinusoidal positions are waves. Intensities in a patch are similar, so a small model
learns late that the source pixel at the same position is more informative than the pixel on the
left. Here one head of each layer initially attends to that position, and one to the pixel above.
Everything else is initialised at random, and all parameters are trained.
"""

import math

import torch

from examples.common.deeper import LAYERS, State

from .patches import HIGH

# The fastest waves of positions, which embeddings of intensities do not use.
N_WAVES = 16
HEAD_DIM = 2 * N_WAVES
SHARPNESS = 2.3
# The input at a position is the previous pixel.
ABOVE = 1 - HIGH


def look(state: State) -> State:
    """Initialise the first head of every decoder attention to attend to one position."""
    attentions = sorted(name for name in state if name.endswith("attn.q_proj.weight"))
    for name in attentions:
        if name.startswith(LAYERS):
            offset = 0 if ".encoder_attn." in name else ABOVE
            _look_at(state, name.removesuffix("q_proj.weight"), offset)
    return state


def _look_at(state: State, attention: str, offset: int) -> None:
    """Make the first head's query at position t equal to its key at position t + offset."""
    for kind, shift in (("q", offset), ("k", 0)):
        weight, bias = (state[f"{attention}{kind}_proj.{part}"] for part in ("weight", "bias"))
        weight[:HEAD_DIM] = SHARPNESS * shifted_waves(weight.size(1), shift)
        bias[:HEAD_DIM] = 0


def shifted_waves(dim: int, shift: int) -> torch.Tensor:
    """The matrix that maps the waves of a position to the fastest ones of position + shift.

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
