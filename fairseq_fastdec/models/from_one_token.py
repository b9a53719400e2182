"""Initialises a model of two tokens a step from a checkpoint of one token a step.

Such a checkpoint has no ``<eod>``, and its decoder positions count tokens; all other parameters
have the same shapes. A model that can translate learns another order in a fraction of the updates
that a new model needs.
"""

import torch
from fairseq.data import Dictionary
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from ..orders.special_tokens import EOD

WORDS = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)
POSITIONS = "decoder.embed_positions.weight"
# For sinusoidal positions, a checkpoint of fairseq up to 0.12.2 has this entry and no other.
SINUSOIDS = "decoder.embed_positions._float_tensor"


def complete(
    state: dict[str, Tensor], own: dict[str, Tensor], words: Dictionary, tokens_per_step: int
) -> bool:
    """Complete the state of a checkpoint of one token a step; leave other states unchanged.

    ``<eod>`` is initialised as in a new model. The embedding of slot i of step t is the
    checkpoint's position t plus position i of a new model, which distinguishes the slots.

    Args:
        state: the checkpoint's parameters, changed in place.
        own: a new model's parameters.
        words: the model's target dictionary.

    Returns:
        whether the state was changed
    """
    end = words.index(EOD)
    without_end = [
        name for name in WORDS if name in state and len(state[name]) == end < len(own[name])
    ]
    for name in without_end:
        state[name] = torch.cat((state[name], own[name][end:].to(state[name])))
    sinusoidal = POSITIONS in own and POSITIONS not in state
    if sinusoidal:
        state.pop(SINUSOIDS, None)
        table = SinusoidalPositionalEmbedding.get_embedding(*own[POSITIONS].shape, words.pad())
        state[POSITIONS] = table.to(own[POSITIONS])
    if POSITIONS in own and (sinusoidal or without_end):
        state[POSITIONS] = _by_step(state[POSITIONS], own[POSITIONS], words.pad(), tokens_per_step)
    return sinusoidal or bool(without_end)


def _by_step(given: Tensor, own: Tensor, pad: int, tokens_per_step: int) -> Tensor:
    """The table ``[N, C]`` of positions that count steps; rows 0 to ``pad`` are no positions."""
    if tokens_per_step == 1:
        return given
    first = pad + 1
    step = torch.arange(len(own) - first) // tokens_per_step
    place = torch.arange(len(own) - first) % tokens_per_step
    table = given[first + step] + own[first + place].to(given)
    return torch.cat((given[:first], table))
