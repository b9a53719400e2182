"""Parameters of a model of one token a step, as a beginning for one of two tokens a step.

Such a checkpoint has no ``<eod>``, and its decoder's positions count tokens; all else is of the
same shapes. A model that has learned to translate learns another order in a fraction of the
updates that a new one needs.
"""

import torch
from fairseq.data import Dictionary
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from ..data.special_tokens import EOD

WORDS = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)
POSITIONS = "decoder.embed_positions.weight"
# fairseq up to 0.12.2 writes this for sinusoids into a checkpoint, and nothing else.
SINUSOIDS = "decoder.embed_positions._float_tensor"


def complete(
    state: dict[str, Tensor], own: dict[str, Tensor], words: Dictionary, tokens_per_step: int
) -> bool:
    """Add what a checkpoint of one token a step lacks; any other stays as it is.

    ``<eod>`` begins as in a new model. The positions of a step's tokens begin as the position that
    the step's number had, plus a vector of a new model's that tells the tokens of a step apart.

    Args:
        state: the checkpoint's parameters, changed in place.
        own: a new model's parameters.
        words: the model's target dictionary.

    Returns:
        whether something was added
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
    """A table of positions ``[N, C]`` that count steps; rows up to padding's are no positions."""
    if tokens_per_step == 1:
        return given
    first = pad + 1
    step = torch.arange(len(own) - first) // tokens_per_step
    place = torch.arange(len(own) - first) % tokens_per_step
    table = given[first + step] + own[first + place].to(given)
    return torch.cat((given[:first], table))
