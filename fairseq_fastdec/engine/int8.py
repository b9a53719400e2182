"""Products of 8-bit integers, quantised token by token."""

import functools
import warnings
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional as F

# No weight is so small; a token of zeros must not divide by zero.
SMALLEST_SCALE = 1e-30


class Int8Linear:
    """``y = x weight^T + bias`` of 8-bit integers, fp32 in and out.

    Weights are quantised once, each output channel with its own scale; inputs as they come, each
    token ``x[..., :]`` with its own scale. So what a token gives does not depend on the tokens
    beside it, and a step of many tokens is exactly a step of one, which a scale for the whole
    input (as in ``torch.ao.nn.quantized.dynamic.Linear``) would break.

    torch has a product with a scale for the whole input only. It is given tokens that are scaled
    to [-1, 1] already, and one more that reaches both ends, which makes its scale a constant.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        """
        Args:
            weight: fp32 ``[out, in]`` on a CPU, ``in`` at least 2.
            bias: fp32 ``[out]`` or ``None``.
        """
        scale = (weight.abs().amax(dim=1) / 127).clamp_min_(SMALLEST_SCALE)
        if fewer_bits() is None:
            self._product = _float_product(weight, scale)
        else:
            self._product = _int8_product(weight, scale, fewer_bits())
        self._bias = weight.new_zeros(weight.size(0)) if bias is None else bias
        self._ends = weight.new_zeros(1, weight.size(1))
        self._ends[0, :2] = torch.tensor([1.0, -1.0])

    def __call__(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2) if x.dim() > 1 else x[None]
        scale = tokens.abs().amax(dim=-1, keepdim=True).clamp_min_(SMALLEST_SCALE)
        product = self._product(torch.cat([tokens / scale, self._ends]))[:-1]
        return torch.addcmul(self._bias, product, scale).view(*x.shape[:-1], self._bias.numel())


@functools.lru_cache(maxsize=None)
def fewer_bits() -> Optional[bool]:
    """How torch multiplies 8-bit integers here: inputs of 8 bits (False) or of 7 (True).

    Processors without instructions for it (VNNI) add up pairs of products in 16 bits, where 8 bits
    do not always fit. ``None``: it cannot multiply them, or not exactly.
    """
    weight, x = torch.full((16, 64), 1.0), torch.full((3, 64), 1.0)
    x[0, 0] = -1.0
    for fewer in (False, True):
        try:
            product = _int8_product(weight, torch.full((16,), 1 / 127), fewer)(x)
        except (AttributeError, RuntimeError, NotImplementedError):
            return None
        if torch.allclose(product, F.linear(x, weight), rtol=2e-2):
            return fewer
    return None


def _int8_product(weight: Tensor, scale: Tensor, reduce_range: bool):
    with warnings.catch_warnings():
        # Newer versions of torch announce that quantised tensors will go; setup.py bounds torch.
        warnings.simplefilter("ignore")
        zero_points = torch.zeros_like(scale, dtype=torch.long)
        quantised = torch.quantize_per_channel(weight, scale, zero_points, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(quantised, None)
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, reduce_range)


def _float_product(weight: Tensor, scale: Tensor):
    """The same numbers without the speed, where torch has no products of integers."""
    weight = (weight / scale[:, None]).round().clamp_(-128, 127) * scale[:, None]
    return lambda x: F.linear((x * 127.5).round().clamp_(-128, 127) / 127.5, weight)
