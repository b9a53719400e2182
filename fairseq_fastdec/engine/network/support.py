"""A model that the engine cannot run is refused by name when the generator is built."""

from typing import Iterator, Optional

from torch import nn

from ...stock_decoders import attention_departures, departures, is_nat
from .weights import layers_of

INSTEAD = "use --decoding fairseq for this model"
INSTEAD_OF_NAT = "decode it with --task translation_lev"


class UnsupportedModel(ValueError):
    """A model that the engine cannot reproduce exactly; the message names the part and a remedy."""


def check_supported(model: nn.Module) -> None:
    """Refuse models whose decoder is not a stock fairseq transformer decoder.

    Raises:
        UnsupportedModel: names the first part that the engine cannot run.
    """
    problem = unsupported_part(model)
    if problem is not None:
        instead = INSTEAD_OF_NAT if is_nat(getattr(model, "decoder", None)) else INSTEAD
        raise UnsupportedModel(f"{problem}; {instead}")


def unsupported_part(model: nn.Module) -> Optional[str]:
    """The first part of a model that the engine cannot run, in words; ``None`` if there is none."""
    return next(_problems(model), None)


def _problems(model: nn.Module) -> Iterator[str]:
    yield from departures(model)
    for layer in layers_of(model.decoder):
        for attention in (layer.self_attn, layer.encoder_attn):
            yield from (f"the decoder: {problem}" for problem in _linears_of(attention))
        yield from linear_problems(layer)


def attention_problems(attention: nn.Module) -> Iterator[str]:
    """The parts of an attention that are not stock."""
    yield from attention_departures(attention)
    yield from _linears_of(attention)


def _linears_of(attention: nn.Module) -> Iterator[str]:
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        if type(linear) is not nn.Linear:
            yield f"an attention projection is a {type(linear).__name__}"


def linear_problems(layer: nn.Module) -> Iterator[str]:
    """The parts of a layer's feed-forward network that are not stock."""
    for linear in (layer.fc1, layer.fc2):
        if type(linear) is not nn.Linear:
            yield f"a feed-forward layer is a {type(linear).__name__}"
