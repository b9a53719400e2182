"""From the engine's weights to the compiled code that runs a whole encoder or decoder."""

from typing import List, Mapping, Optional, Protocol, Sequence

from fairseq.modules import gelu
from torch import Tensor
from torch.nn import functional as F

from ..kernels import transformer
from ..kernels.transformer import Transformer
from ..products.linear import Layer
from ..products.precision import Norm
from .weights import FeedForward


class HasFeedForward(Protocol):
    """The layers of encoders and decoders have this in common."""

    feed_forward: FeedForward


class Weights(Protocol):
    """Encoders and decoders have these in common."""

    n_heads: int
    head_dim: int
    embed: Tensor  # [V, C]
    embed_scale: float
    embed_norm: Optional[Norm]
    layers: Sequence[HasFeedForward]
    final_norm: Optional[Norm]


def compiled_layer(
    linears: Mapping[str, Layer], norms: Mapping[str, Norm], feed_forward: FeedForward
) -> transformer.Layer:
    """A layer as compiled code takes it.

    Args:
        linears, norms: those of the attentions, by their names in :class:`.structures.Layer`.
    """
    linears = dict(linears, fc1=feed_forward.fc1, fc2=feed_forward.fc2)
    packed = {name: getattr(linear, "packed", None) for name, linear in linears.items()}
    return transformer.Layer(packed, dict(norms, final_norm=feed_forward.norm))


def compiled_transformer(
    weights: Weights, layers: List[transformer.Layer], tokens_per_step: int
) -> Optional[Transformer]:
    """The compiled code that runs these weights, if there is any.

    It has the activations of fairseq's large models, and none of NormFormer's norms and scales.
    Numbers must be fp32; a model may have several dtypes, which torch refuses or computes.

    Args:
        layers: those of the weights.
        tokens_per_step: so many tokens of a row see each other; 0: all do.
    """
    feed_forwards = [layer.feed_forward for layer in weights.layers]
    if not all(map(_is_compiled, feed_forwards)):
        return None
    return Transformer.of(
        transformer.Parameters(
            n_heads=weights.n_heads,
            head_dim=weights.head_dim,
            pre_norm=feed_forwards[0].pre_norm,
            gelu=feed_forwards[0].activation is gelu,
            tokens_per_step=tokens_per_step,
            embed=weights.embed,
            embed_scale=weights.embed_scale,
            embed_norm=weights.embed_norm,
            layers=layers,
            final_norm=weights.final_norm,
        )
    )


def _is_compiled(feed_forward: FeedForward) -> bool:
    extras = (feed_forward.fc1_norm, feed_forward.residual_scale)
    return all(extra is None for extra in extras) and feed_forward.activation in (F.relu, gelu)
