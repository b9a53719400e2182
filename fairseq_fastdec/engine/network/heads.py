"""Prediction heads, from prepared weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import torch
from fairseq.models import FairseqDecoder
from fairseq.modules import gelu, gelu_accurate
from fairseq.utils import get_activation_fn
from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedLinear
from ..products.precision import Precision, PreparedNorm, in_fp32, norm_of
from .weights import stacked

# fairseq's --activation-fn as compiled code numbers them, Epilogue in cpp/linear_blocks.h.
ACTIVATIONS: dict[Callable, int] = {F.relu: 2, gelu: 3, gelu_accurate: 4, torch.tanh: 5}
LINEAR = get_activation_fn("linear").__code__
# Those of heads that know nothing of each other.
ACTIVATIONS_OF_HEADS = (F.relu, gelu)


def activation_number(function: Callable[[Tensor], Tensor]) -> Optional[int]:
    """The number of an activation in compiled code; ``None`` if there is none for it."""
    # fairseq makes a new function for each layer of --activation-fn linear.
    if getattr(function, "__code__", None) is LINEAR:
        return 0
    return ACTIVATIONS.get(function)


@dataclass
class HeadWeights:
    """Heads of :class:`~fairseq_fastdec.models.block_heads.BlockHeads` that all are learned."""

    hidden: PackedLinear
    outputs: list[PackedLinear]  # one for all heads, or one for each
    n_heads: int
    gelu: bool

    @classmethod
    def of(
        cls, decoder: FairseqDecoder, precision: Precision, first: int, last: int
    ) -> "HeadWeights":
        """Heads ``first ... last - 1``; head 0 is p_1, learned or not."""
        heads, n_identity = decoder.heads, int(decoder.identity_first_head)
        first, last = first - n_identity, last - n_identity
        weight, bias = heads.output_weight[first:last], heads.output_bias[first:last]
        if heads.shared:
            outputs = [precision.linear(weight.flatten(0, 1), bias.flatten())]
        else:
            outputs = [precision.linear(*parameters) for parameters in zip(weight, bias)]
        hidden = precision.linear(*heads.hidden_slice(first, last))
        return cls(hidden, outputs, last - first, heads.activation_fn is gelu)


@dataclass
class DrafterWeights:
    """:class:`~fairseq_fastdec.models.sequential_heads.SequentialHeads`.

    Attributes:
        n_heads, head_dim: of the attention to the sources, whose queries come scaled.
        linears, norms: by their names in the engine.
    """

    n_heads: int
    head_dim: int
    activation: Optional[int]
    embed: Tensor  # [V, E]
    embed_scale: float
    linears: dict[str, PackedLinear]
    norms: dict[str, PreparedNorm]

    @classmethod
    def of(cls, decoder: FairseqDecoder, precision: Precision) -> "DrafterWeights":
        """The decoder's sequential heads."""
        heads = decoder.heads
        attention = decoder.layers[len(decoder.layers) - 1].encoder_attn
        names = ["begin", "token", "source", "fc1", "fc2"]
        if heads.narrow is not None:
            names.append("narrow")
        linears = {name: precision.linear_of(getattr(heads, name)) for name in names}
        linears["query"] = stacked([heads.query], precision, first_scale=attention.scaling)
        names = ["token_norm", "source_norm", "ffn_norm", "output_norm"]
        return cls(
            n_heads=attention.num_heads,
            head_dim=attention.head_dim,
            activation=activation_number(heads.activation_fn),
            embed=in_fp32(decoder.embed_tokens.weight).contiguous(),
            embed_scale=decoder.embed_scale,
            linears=linears,
            norms={name: norm_of(getattr(heads, name)) for name in names},
        )


def vocabulary_of_drafts(
    decoder: FairseqDecoder, precision: Precision, n_types: Optional[int]
) -> PackedLinear:
    """The output layer behind sequential heads, of the first types (default: all)."""
    output, widen = decoder.output_projection, decoder.heads.widen
    weight = in_fp32(output.weight[:n_types])
    if widen is not None:
        weight = weight @ in_fp32(widen.weight)
    return precision.linear(weight, None if output.bias is None else output.bias[:n_types])


def has_sequential_heads(decoder: FairseqDecoder) -> bool:
    """Whether the decoder has heads that see the tokens before theirs."""
    return getattr(decoder, "heads_are_sequential", False)
