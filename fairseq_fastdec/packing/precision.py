"""The precisions in which the engine computes."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, overload

import torch
from torch import Tensor, nn

from ..engine.kernels.parts import EnginePart
from .packed import PackedBFloat16, PackedInt8, PackedLinear


class PreparedNorm(NamedTuple):
    """Layer normalisation over the last dimension, weight and bias fp32 ``[C]``."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    @property
    def part(self) -> EnginePart:
        """The description of the layer for the engine."""
        arrays = {name: getattr(self, name).contiguous().numpy() for name in ("weight", "bias")}
        return EnginePart("Norm", {**arrays, "epsilon": self.eps})


class Precision(NamedTuple):
    """A precision, and how parameters are prepared for it.

    Attributes:
        product: the class of linear layers.
        bytes_of_weight: bytes per packed weight.
        rounds_keys: whether the decoder's keys and values are stored in bf16 instead of fp32.
    """

    product: Callable[[Tensor, Optional[Tensor]], Any]
    bytes_of_weight: int = 4
    rounds_keys: bool = False

    def linear(self, weight: Tensor, bias: Optional[Tensor] = None) -> PackedLinear:
        """Prepare a layer: the weight ``[outputs, inputs]``, the bias ``[outputs]`` or ``None``."""
        return self.product(in_fp32(weight), None if bias is None else in_fp32(bias))

    def linear_of(self, module: nn.Linear) -> PackedLinear:
        """Prepare a linear layer."""
        return self.linear(module.weight, module.bias)


def in_fp32(parameter: Tensor) -> Tensor:
    """A parameter in fp32, like embeddings, norms and biases in all precisions."""
    return parameter.detach().float()


@overload
def norm_of(module: None) -> None: ...
@overload
def norm_of(module: nn.Module) -> PreparedNorm: ...
def norm_of(module: Any) -> Optional[PreparedNorm]:
    """Prepare a normalisation; ``None`` for ``None``."""
    if module is None:
        return None
    return PreparedNorm(in_fp32(module.weight), in_fp32(module.bias), module.eps)


PRECISIONS: dict[str, Precision] = {
    "model": Precision(PackedLinear),
    "fp32": Precision(PackedLinear),
    "bf16": Precision(PackedBFloat16, 2, rounds_keys=True),
    "int8": Precision(PackedInt8, 1, rounds_keys=True),
}

# --proposal-precision rough. If only the tokens of p_1 are kept, rounding the other heads does not
# change the output, and hardly the acceptance. Their cost is mostly reading their weights.
ROUGH = PRECISIONS["int8"]
