"""The prediction heads of blockwise decoders, from prepared weights."""

import copy
import threading
from typing import Dict, List, Optional, Protocol, Tuple

import torch
from fairseq.modules import gelu
from torch import Tensor, nn
from torch.nn import functional as F

from ..kernels.heads import CompiledHeads
from ..kernels.packed import Packed
from ..products.linear import LinearLayer
from ..products.precision import Precision
from .drafter import has_sequential_heads
from .gradients import without_gradients


class HeadWeights:
    """Computes :class:`~fairseq_fastdec.models.block_heads.BlockHeads` in evaluation mode.

    Heads count as in ``decoder.head_features``: head 0 is p_1, learned or not.
    """

    def __init__(self, decoder: nn.Module, precision: Precision) -> None:
        self._heads = decoder.heads
        self._precision = precision
        self._n_identity = int(decoder.identity_first_head)
        self._layers: Dict[Tuple[int, int], Tuple[LinearLayer, "Outputs"]] = {}
        self._preparing = threading.Lock()
        self._compiled: Dict[Tuple[int, int], Optional[CompiledHeads]] = {}

    @property
    def first_is_identity(self) -> bool:
        """Whether p_1 reads the features as they are."""
        return self._n_identity > 0

    @classmethod
    def of(cls, decoder: nn.Module, precision: Precision) -> Optional["HeadWeights"]:
        """The decoder's heads; ``None`` for a stock decoder, and for sequential heads."""
        is_parallel = hasattr(decoder, "head_features") and not has_sequential_heads(decoder)
        return cls(decoder, precision) if is_parallel else None

    def of_session(self) -> "HeadWeights":
        """The same weights, with compiled code that one session may call at a time."""
        own = copy.copy(self)
        own._compiled = {}
        return own

    @without_gradients
    def __call__(self, features: Tensor, first: int, last: int) -> Tensor:
        """``[..., C]`` to ``[..., last - first, C]``."""
        own = features.unsqueeze(-2)
        learned = (max(first - self._n_identity, 0), last - self._n_identity)
        if learned[0] >= learned[1]:
            return own
        compiled = self.compiled(max(first, self._n_identity), last)
        if compiled is not None:
            outputs = compiled(features)
            return torch.cat([own, outputs], dim=-2) if first < self._n_identity else outputs
        hidden, output = self._prepared(*learned)
        outputs = own + output(self._heads.activation_fn(hidden(features)))
        return torch.cat([own, outputs], dim=-2) if first < self._n_identity else outputs

    def compiled(self, first: int, last: int) -> Optional[CompiledHeads]:
        """Compiled code for heads ``first ... last - 1``, which all have to be learned.

        Returns:
            ``None`` where nothing was compiled, or not for such heads
        """
        if (first, last) not in self._compiled:
            self._compiled[first, last] = self._compile(first, last)
        return self._compiled[first, last]

    def packed_layers(
        self, first: int, last: int
    ) -> Tuple[Optional[Packed], List[Optional[Packed]], bool]:
        """The layers of heads ``first ... last - 1``, which all have to be learned.

        Returns:
            the hidden layer, the outputs, and whether the activation is GELU, not ReLU; ``None``
            for layers that are not packed, and for other activations.
        """
        hidden, output = self._prepared(first - self._n_identity, last - self._n_identity)
        activation = self._heads.activation_fn
        packed = [getattr(layer, "packed", None) for layer in (hidden, *output.layers)]
        if activation not in (F.relu, gelu):
            packed[0] = None
        return packed[0], packed[1:], activation is gelu

    def _compile(self, first: int, last: int) -> Optional[CompiledHeads]:
        for (start, end), more in self._compiled.items():
            if start == first and end > last and more is not None:
                return more.first(last - first)
        if not self._n_identity <= first < last:
            return None
        hidden, outputs, is_gelu = self.packed_layers(first, last)
        return CompiledHeads.of(hidden, outputs, last - first, is_gelu)

    def _prepared(self, first: int, last: int) -> Tuple[LinearLayer, "Outputs"]:
        """The two layers of some learned heads; decoding asks for the same few ranges always."""
        with self._preparing:
            if (first, last) not in self._layers:
                heads = self._heads
                weight, bias = heads.output_weight[first:last], heads.output_bias[first:last]
                outputs = _SharedOutputs if heads.shared else _SplitOutputs
                self._layers[first, last] = (
                    self._precision.linear(*heads.hidden_slice(first, last)),
                    outputs(weight, bias, self._precision),
                )
            return self._layers[first, last]


class Outputs(Protocol):
    """From hidden units to the outputs of n heads.

    Attributes:
        layers: one for all heads, or one for each.
    """

    layers: List[LinearLayer]

    def __call__(self, hidden: Tensor) -> Tensor:
        """``[..., units]`` to ``[..., n, C]``."""


class _SharedOutputs:
    """n outputs ``[..., n, C]`` from the same hidden units ``[..., H]``."""

    def __init__(self, weight: Tensor, bias: Tensor, precision: Precision) -> None:
        self._shape = bias.shape
        self.layers = [precision.linear(weight.flatten(0, 1), bias.flatten())]

    def __call__(self, hidden: Tensor) -> Tensor:
        return self.layers[0](hidden).unflatten(-1, self._shape)


class _SplitOutputs:
    """n outputs ``[..., n, C]``, each from its own share of the hidden units ``[..., n * H]``."""

    def __init__(self, weight: Tensor, bias: Tensor, precision: Precision) -> None:
        self.layers = [precision.linear(*parameters) for parameters in zip(weight, bias)]

    def __call__(self, hidden: Tensor) -> Tensor:
        # One batched product would not use the layout of prepared weights, and takes longer.
        shares = hidden.chunk(len(self.layers), dim=-1)
        outputs = [layer(share) for layer, share in zip(self.layers, shares)]
        return torch.stack(outputs, dim=-2)
