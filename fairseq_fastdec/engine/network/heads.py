"""The prediction heads of blockwise decoders, from prepared weights."""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from ..products.linear import Layer
from ..products.precision import Precision


class HeadWeights:
    """Computes :class:`~fairseq_fastdec.models.block_heads.BlockHeads` in evaluation mode.

    Heads count as in ``decoder.head_features``: head 0 is p_1, learned or not.
    """

    def __init__(self, decoder: nn.Module, precision: Precision) -> None:
        self._heads = decoder.heads
        self._precision = precision
        self._n_identity = int(decoder.identity_first_head)
        self._layers: Dict[Tuple[int, int], Tuple[Layer, Layer]] = {}

    @classmethod
    def of(cls, decoder: nn.Module, precision: Precision) -> Optional["HeadWeights"]:
        """The decoder's heads; ``None`` for a stock decoder."""
        return cls(decoder, precision) if hasattr(decoder, "head_features") else None

    @torch.no_grad()
    def __call__(self, features: Tensor, first: int, last: int) -> Tensor:
        """``[..., C]`` to ``[..., last - first, C]``."""
        own = features.unsqueeze(-2)
        learned = (max(first - self._n_identity, 0), last - self._n_identity)
        if learned[0] >= learned[1]:
            return own
        hidden, output = self._prepared(*learned)
        outputs = own + output(self._heads.activation_fn(hidden(features)))
        return torch.cat([own, outputs], dim=-2) if first < self._n_identity else outputs

    def _prepared(self, first: int, last: int) -> Tuple[Layer, Layer]:
        """The two layers of some learned heads; decoding asks for the same few ranges always."""
        if (first, last) not in self._layers:
            heads = self._heads
            weight, bias = heads.output_weight[first:last], heads.output_bias[first:last]
            outputs = _SharedOutputs if heads.shared else _SplitOutputs
            self._layers[first, last] = (
                self._precision.linear(*heads.hidden_slice(first, last)),
                outputs(weight, bias, self._precision),
            )
        return self._layers[first, last]


class _SharedOutputs:
    """n outputs ``[..., n, C]`` from the same hidden units ``[..., H]``."""

    def __init__(self, weight: Tensor, bias: Tensor, precision: Precision) -> None:
        self._shape = bias.shape
        self._linear = precision.linear(weight.flatten(0, 1), bias.flatten())

    def __call__(self, hidden: Tensor) -> Tensor:
        return self._linear(hidden).unflatten(-1, self._shape)


class _SplitOutputs:
    """n outputs ``[..., n, C]``, each from its own share of the hidden units ``[..., n * H]``."""

    def __init__(self, weight: Tensor, bias: Tensor, precision: Precision) -> None:
        self._linears = [precision.linear(*parameters) for parameters in zip(weight, bias)]

    def __call__(self, hidden: Tensor) -> Tensor:
        # One batched product would not use the layout of prepared weights, and takes longer.
        shares = hidden.chunk(len(self._linears), dim=-1)
        outputs = [linear(share) for linear, share in zip(self._linears, shares)]
        return torch.stack(outputs, dim=-2)
