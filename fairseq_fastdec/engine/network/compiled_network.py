"""From the engine's weights to the compiled code that runs a whole encoder or decoder."""

from typing import Callable, List, Mapping, Optional, Protocol, Sequence

import torch
from fairseq.modules import gelu, gelu_accurate
from fairseq.utils import get_activation_fn
from torch import Tensor
from torch.nn import functional as F

from ..kernels import transformer
from ..kernels.transformer import Transformer
from ..products.linear import LinearLayer
from ..products.precision import PreparedNorm
from .weights import FeedForward

# As compiled code names the activations of fairseq's --activation-fn.
ACTIVATIONS = {F.relu: "relu", gelu: "gelu", gelu_accurate: "gelu_accurate", torch.tanh: "tanh"}
LINEAR = get_activation_fn("linear").__code__


class HasFeedForward(Protocol):
    """The layers of encoders and decoders have this in common."""

    feed_forward: FeedForward


class Weights(Protocol):
    """Encoders and decoders have these in common."""

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[PreparedNorm]
    layers: Sequence[HasFeedForward]
    final_norm: Optional[PreparedNorm]


def compiled_layer(
    linears: Mapping[str, LinearLayer],
    norms: Mapping[str, Optional[PreparedNorm]],
    feed_forward: FeedForward,
) -> transformer.LayerParameters:
    """A layer as compiled code takes it.

    Args:
        linears, norms: those of the attentions, by their names in :class:`.structures.Layer`.
    """
    linears = dict(linears, fc1=feed_forward.fc1, fc2=feed_forward.fc2)
    packed = {name: getattr(linear, "packed", None) for name, linear in linears.items()}
    norms = dict(norms, final_norm=feed_forward.norm, fc1_norm=feed_forward.fc1_norm)
    return transformer.LayerParameters(packed, norms, feed_forward.residual_scale)


def compiled_transformer(
    weights: Weights, layers: List[transformer.LayerParameters], tokens_per_step: int
) -> Optional[Transformer]:
    """The compiled code that runs these weights, if there is any.

    Its layers have one activation and the same number of hidden units. Numbers must be fp32; a
    model may have several dtypes, which torch refuses or computes.

    Args:
        layers: those of the weights.
        tokens_per_step: so many tokens of a row see each other; 0: all do.
    """
    feed_forwards = [layer.feed_forward for layer in weights.layers]
    activations = {activation_name(own.activation) for own in feed_forwards}
    if None in activations or len(activations) > 1:
        return None
    return Transformer.of(
        transformer.Parameters(
            n_heads=weights.n_heads,
            head_dim=weights.head_dim,
            pre_norm=feed_forwards[0].pre_norm,
            activation=activations.pop(),
            tokens_per_step=tokens_per_step,
            embed=weights.embed,
            embed_scale=weights.embed_scale,
            embed_norm=weights.embed_norm,
            layers=layers,
            final_norm=weights.final_norm,
        )
    )


def activation_name(function: Callable[[Tensor], Tensor]) -> Optional[str]:
    """The name of an activation in compiled code; ``None`` if there is none for it."""
    # fairseq makes a new function for each layer of --activation-fn linear.
    if getattr(function, "__code__", None) is LINEAR:
        return "linear"
    return ACTIVATIONS.get(function)
