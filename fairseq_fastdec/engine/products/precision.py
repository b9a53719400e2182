"""In which precision the engine computes."""

from typing import Callable, Dict, NamedTuple, Optional

import torch
from torch import Tensor, nn

from ..kernels.packed import PackedBFloat16, PackedInt8, PackedLinear
from .int8 import Int8Linear, Int8Rows
from .linear import (
    BFloat16Linear,
    BFloat16Rows,
    LinearLayer,
    PlainLinear,
    PlainRows,
    Rows,
    can_block,
)


class PreparedNorm(NamedTuple):
    """Layer normalisation over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Precision(NamedTuple):
    """A way to prepare parameters: the matrices of linear layers, and everything else.

    Attributes:
        dtype: of embeddings, norms, biases and states; ``None``: the model's own.
        product: from a weight ``[out, in]`` and a bias ``[out]`` or ``None`` to a linear layer.
        gathered: the same, to the rows of a layer of which few outputs are computed at a time.
        keys_values: the dtype to which the decoder's keys and values are rounded on a CPU, in every
            step before anything attends to them; ``None``: as ``dtype``.
        attention: the dtype of the decoder's attention, unless it is compiled; ``None``: as
            ``dtype``.
    """

    dtype: Optional[torch.dtype]
    product: Callable[[Tensor, Optional[Tensor]], LinearLayer]
    gathered: Callable[[Tensor, Optional[Tensor]], Rows]
    keys_values: Optional[torch.dtype] = None
    attention: Optional[torch.dtype] = None

    def rounding(self, model: torch.dtype) -> torch.dtype:
        """The dtype that a product's result is about as exact as, in a model of dtype ``model``."""
        return (self.dtype or model) if self.product is PlainLinear else torch.bfloat16

    def tensor(self, parameter: Tensor) -> Tensor:
        """A parameter, or the model's own states, in this precision's dtype."""
        return parameter.detach().to(self.dtype or parameter.dtype)

    def linear(self, weight: Tensor, bias: Optional[Tensor] = None) -> LinearLayer:
        """A layer ``[..., in] -> [..., out]``."""
        return self.product(self.tensor(weight), None if bias is None else self.tensor(bias))

    def linear_of(self, module: Optional[nn.Linear]) -> Optional[LinearLayer]:
        """The same layer, prepared; ``None`` stays ``None``."""
        return None if module is None else self.linear(module.weight, module.bias)

    def rows_of(self, module: nn.Linear) -> Rows:
        """The same layer, of which few outputs are computed at a time."""
        bias = None if module.bias is None else self.tensor(module.bias)
        return self.gathered(self.tensor(module.weight), bias)

    def norm_of(self, module: Optional[nn.Module]) -> Optional[PreparedNorm]:
        """The same normalisation; ``None`` stays ``None``."""
        if module is None:
            return None
        return PreparedNorm(self.tensor(module.weight), self.tensor(module.bias), module.eps)


PRECISIONS: Dict[str, Precision] = {
    "model": Precision(None, PlainLinear, PlainRows),
    "fp32": Precision(torch.float32, PlainLinear, PlainRows),
    "bf16": Precision(torch.float32, BFloat16Linear, BFloat16Rows, torch.bfloat16),
    "int8": Precision(torch.float32, Int8Linear, Int8Rows, torch.bfloat16),
}


def rough_precision(own: Precision, model: torch.dtype, device: torch.device) -> Precision:
    """``--proposal-precision rough``: for heads beside a p_1 of its ``own`` precision.

    Where only p_1's own tokens stay, the other heads' rounding changes no output, and hardly any
    acceptance; and what they cost is to read their weights. In int8 these are a quarter as long, in
    bf16 half. Beside compiled products in fp32, oneDNN's in bf16 lose as much time as they gain.
    """
    in_floats = own.product in (PlainLinear, BFloat16Linear)
    is_single = (own.dtype or model) == torch.float32
    if device.type != "cpu" or not (in_floats and is_single):
        return own
    if PackedInt8.is_available():
        return PRECISIONS["int8"]
    compiled = PackedLinear.is_available()
    has_bf16 = PackedBFloat16.is_available() if compiled else can_block(torch.bfloat16)
    return PRECISIONS["bf16"] if own.product is PlainLinear and has_bf16 else own


def precision_of(name: str, device: torch.device, equal_steps: bool = False) -> Precision:
    """A precision by its name in --engine-precision.

    Args:
        equal_steps: whether a step of several tokens must give exactly what steps of one give, as
            methods do need that promise the tokens of greedy decoding. Sums of other lengths round
            otherwise. In fp32 that stays tiny, but rounding to 8 bits afterwards makes it 1 part
            in 127, which changes sentences. Sums of attention in fp64 prevent it.

    Raises:
        ValueError: if the device cannot multiply in that precision.
    """
    if name == "int8" and device.type != "cpu":
        raise ValueError(
            f"--engine-precision int8: possible on a CPU, and not on {device.type}; use --cpu, or "
            "--engine-precision bf16"
        )
    precision = PRECISIONS[name]
    rounds = precision.product is not PlainLinear
    return precision._replace(attention=torch.float64) if rounds and equal_steps else precision
