"""The weights of prediction heads in the layout of the engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

import torch
from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from fairseq.modules import gelu, gelu_accurate
from fairseq.utils import get_activation_fn
from torch import Tensor
from torch.nn import functional as F

from .packed import PackedLinear
from .precision import Precision, PreparedNorm, in_fp32, norm_of
from .stock_decoders import layers_of
from .weights import stacked

# The numbers of fairseq's activation functions in compiled code: Epilogue in cpp/linear_blocks.h.
ACTIVATIONS: dict[Callable, int] = {
    F.relu: 2,
    gelu: 3,
    gelu_accurate: 4,
    torch.tanh: 5,
    F.silu: 6,
}
LINEAR = get_activation_fn("linear").__code__
# The activation functions that are supported in parallel heads.
ACTIVATIONS_OF_HEADS = (F.relu, gelu)


def activation_number(function: Callable[[Tensor], Tensor]) -> Optional[int]:
    """The number of an activation in compiled code; ``None`` if it is not supported."""
    # For --activation-fn linear fairseq creates a new function for each layer.
    if getattr(function, "__code__", None) is LINEAR:
        return 0
    return ACTIVATIONS.get(function)


@dataclass
class HeadWeights:
    """A range of the heads of :class:`~fairseq_fastdec.models.block_heads.BlockHeads`."""

    hidden: PackedLinear
    outputs: list[PackedLinear]  # one for all heads, or one per head
    n_heads: int
    gelu: bool

    @classmethod
    def of(
        cls, decoder: FairseqDecoder, precision: Precision, first: int, last: int
    ) -> "HeadWeights":
        """Heads ``first ... last - 1``, without an identity head; head 0 is p_1."""
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
class SequentialWeights:
    """:class:`~fairseq_fastdec.models.sequential_heads.SequentialHeads`.

    Attributes:
        n_heads, head_dim: of the attention to the sources; queries are scaled by the weights.
        activation: the number of the activation function; ``None`` if it is not supported.
        linears, norms: the layers, by their names in the engine.
    """

    n_heads: int
    head_dim: int
    activation: Optional[int]
    embed: Tensor  # [V, E]
    embed_scale: float
    linears: dict[str, PackedLinear]
    norms: dict[str, PreparedNorm]

    @classmethod
    def of(cls, decoder: FairseqDecoder, precision: Precision) -> "SequentialWeights":
        """The decoder's sequential heads."""
        heads = decoder.heads
        attention = layers_of(decoder)[-1].encoder_attn
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


def vocabulary_of_proposals(
    decoder: FairseqDecoder, precision: Precision, n_types: Optional[int]
) -> PackedLinear:
    """The output layer of sequential heads, for the first types only (default: all)."""
    output, widen = decoder.output_projection, decoder.heads.widen
    weight = in_fp32(output.weight[:n_types])
    if widen is not None:
        weight = weight @ in_fp32(widen.weight)
    return precision.linear(weight, None if output.bias is None else output.bias[:n_types])


def has_sequential_heads(decoder: FairseqDecoder) -> bool:
    """Return True if the decoder has :class:`SequentialHeads`."""
    return getattr(decoder, "heads_are_sequential", False)


def heads_agree(models: Sequence[FairseqEncoderDecoderModel]) -> bool:
    """Return True if all models with heads have the same kind, and can propose together."""
    decoders = [model.decoder for model in models if getattr(model.decoder, "block_size", 0)]
    return len(set(map(has_sequential_heads, decoders))) <= 1
