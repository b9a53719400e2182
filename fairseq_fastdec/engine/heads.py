"""The prediction heads of blockwise decoders, from prepared weights."""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from .linear import Linear


class HeadWeights:
    """What :class:`~fairseq_fastdec.models.block_heads.BlockHeads` computes in evaluation mode.

    Args of the calls count as in ``decoder.head_features``: head 0 is p_1, learned or not.
    """

    def __init__(self, decoder: nn.Module) -> None:
        self._heads = decoder.heads
        self._n_identity = int(decoder.identity_first_head)
        self._outputs = [
            Linear(weight, bias)
            for weight, bias in zip(self._heads.output_weight, self._heads.output_bias)
        ]
        self._hidden: Dict[Tuple[int, int], Linear] = {}

    @classmethod
    def of(cls, decoder: nn.Module) -> Optional["HeadWeights"]:
        """The decoder's heads; ``None`` for a stock decoder."""
        return cls(decoder) if hasattr(decoder, "head_features") else None

    def __call__(self, features: Tensor, first: int, last: int) -> Tensor:
        """``[..., C]`` to ``[..., last - first, C]``."""
        outputs = [features] if first < self._n_identity else []
        first, last = max(first - self._n_identity, 0), last - self._n_identity
        if first < last:
            hidden = self._heads.activation_fn(self._hidden_layer(first, last)(features))
            for head in range(first, last):
                units = self._heads.units_of(hidden, head - first)
                outputs.append(features + self._outputs[head](units))
        return torch.stack(outputs, dim=-2)

    def _hidden_layer(self, first: int, last: int) -> Linear:
        if (first, last) not in self._hidden:
            self._hidden[first, last] = Linear(*self._heads.hidden_slice(first, last))
        return self._hidden[first, last]
