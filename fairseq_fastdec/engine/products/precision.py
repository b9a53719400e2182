"""The precisions in which the engine computes."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, overload

import torch
from torch import Tensor, nn

from ..kernels.packed import PackedBFloat16, PackedInt8, PackedLinear
from ..kernels.parts import EnginePart


class PreparedNorm(NamedTuple):
    """Layer normalisation over the last dimension, weight and bias fp32 ``[C]``."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    @property
    def part(self) -> EnginePart:
        """The same for the engine."""
        arrays = {name: getattr(self, name).contiguous().numpy() for name in ("weight", "bias")}
        return EnginePart("Norm", {**arrays, "epsilon": self.eps})


class Precision(NamedTuple):
    """A way to prepare parameters.

    Attributes:
        product: prepares linear layers.
        bytes_of_weight: how many a packed weight has.
        rounds_keys: whether the decoder's keys and values are kept in bf16, and not in fp32.
    """

    product: Callable[[Tensor, Optional[Tensor]], Any]
    bytes_of_weight: int = 4
    rounds_keys: bool = False

    def linear(self, weight: Tensor, bias: Optional[Tensor] = None) -> PackedLinear:
        """The layer of a weight ``[outputs, inputs]`` and a bias ``[outputs]`` or ``None``."""
        return self.product(in_fp32(weight), None if bias is None else in_fp32(bias))

    def linear_of(self, module: nn.Linear) -> PackedLinear:
        """The same layer, prepared."""
        return self.linear(module.weight, module.bias)


def in_fp32(parameter: Tensor) -> Tensor:
    """A parameter as embeddings, norms and biases are in all precisions."""
    return parameter.detach().float()


@overload
def norm_of(module: None) -> None: ...
@overload
def norm_of(module: nn.Module) -> PreparedNorm: ...
def norm_of(module: Any) -> Optional[PreparedNorm]:
    """The same normalisation; ``None`` stays ``None``."""
    if module is None:
        return None
    return PreparedNorm(in_fp32(module.weight), in_fp32(module.bias), module.eps)


PRECISIONS: dict[str, Precision] = {
    "model": Precision(PackedLinear),
    "fp32": Precision(PackedLinear),
    "bf16": Precision(PackedBFloat16, 2, rounds_keys=True),
    "int8": Precision(PackedInt8, 1, rounds_keys=True),
}

# --proposal-precision rough. Where only p_1's own tokens stay, the rounding of the other heads
# changes no output, and hardly any acceptance. Their cost is to read their weights.
ROUGH = PRECISIONS["int8"]
