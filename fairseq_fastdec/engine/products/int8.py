"""Products of 8-bit integers, quantised token by token."""

import functools
import warnings
from typing import Iterator, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import OUTPUTS_AT_ONCE, PackedInt8
from .linear import LinearLayer

# No weight is so small; a token of zeros must not divide by zero.
SMALLEST_SCALE = 1e-30


class TokenwiseLinear:
    """``y = product(x) + bias`` for a product that takes inputs from -1 to 1.

    Each token ``x[..., :]`` is scaled by itself, so what it gives does not depend on the tokens
    beside it, and a step of many tokens is exactly a step of one, which a scale for the whole input
    (as in ``torch.ao.nn.quantized.dynamic.Linear``) would break.
    """

    def __init__(self, product: LinearLayer, bias: Optional[Tensor]) -> None:
        """
        Args:
            product: of 8-bit integers, fp32 ``[N, in]`` to ``[N, out]``.
            bias: fp32 ``[out]`` or ``None``.
        """
        self._product = product
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2) if x.dim() > 1 else x[None]
        scale = tokens.abs().amax(dim=-1, keepdim=True).clamp_min_(SMALLEST_SCALE)
        product = self._product(tokens / scale)
        if self._bias is None:
            product *= scale
        else:
            product = torch.addcmul(self._bias, product, scale)
        return product.view(*x.shape[:-1], product.size(-1))


class Int8Linear:
    """``y = x weight^T + bias`` of 8-bit integers, fp32 in and out.

    Weights are quantised once, each output channel with its own scale; inputs as they come, token
    by token. The compiled product is there for single tokens: torch's takes longer to begin than to
    multiply one.

    Attributes:
        packed: the compiled product, or ``None``.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        """
        Args:
            weight: fp32 ``[out, in]`` on a CPU, ``in`` at least 2.
            bias: fp32 ``[out]`` or ``None``.
        """
        scale = _scale_of(weight)
        # Never as a whole in 8-bit integers and in their packed form at once.
        self.packed = PackedInt8.of_parts(_int8_parts(weight, scale), weight.size(1), scale, bias)
        self._product: LinearLayer = self.packed or TokenwiseLinear(
            _torch_product(_quantised(weight, scale)), bias
        )

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x)


class Int8Rows:
    """The weights of an :class:`Int8Linear` of which few outputs are computed at a time.

    They are quantised once, so an output does not depend on which others are taken with it.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        """
        Args:
            weight, bias: as those of :class:`Int8Linear`.
        """
        self.n_outputs = weight.size(0)
        self._scale = _scale_of(weight)
        self._weight_int8 = torch.cat(list(_int8_parts(weight, self._scale)))
        self._bias = bias

    def take(self, outputs: Tensor) -> LinearLayer:
        """The layer of some outputs, int64 ``[K]``."""
        weight_int8 = self._weight_int8.index_select(0, outputs)
        scale = self._scale[outputs]
        bias = None if self._bias is None else self._bias[outputs]
        packed = PackedInt8.of(weight_int8, scale, bias)
        return packed or TokenwiseLinear(_product_of_rows(weight_int8, scale), bias)


@functools.lru_cache(maxsize=None)
def fewer_bits() -> Optional[bool]:
    """Whether torch's products of 8-bit integers take inputs of 7 bits here, and not of 8.

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


def _scale_of(weight: Tensor) -> Tensor:
    least, greatest = weight.aminmax(dim=1)
    return (torch.maximum(greatest, -least) / 127).clamp_min_(SMALLEST_SCALE)


def _int8_parts(weight: Tensor, scale: Tensor) -> Iterator[Tensor]:
    """The integers of some outputs after the others, int8 ``[at most OUTPUTS_AT_ONCE, in]``."""
    parts = (tensor.split(OUTPUTS_AT_ONCE) for tensor in (weight, scale))
    for part, part_scale in zip(*parts):
        yield _quantised(part, part_scale).int_repr()


def _quantised(weight: Tensor, scale: Tensor) -> Tensor:
    zero_points = torch.zeros_like(scale, dtype=torch.long)
    with warnings.catch_warnings():
        # Newer versions of torch announce that quantised tensors will go; setup.py bounds torch.
        warnings.simplefilter("ignore")
        return torch.quantize_per_channel(weight, scale, zero_points, 0, torch.qint8)


def _int8_product(weight: Tensor, scale: Tensor, reduce_range: bool) -> LinearLayer:
    return _packed_product(_quantised(weight, scale), reduce_range)


def _torch_product(quantised: Tensor) -> LinearLayer:
    if fewer_bits() is None:
        return _float_product(quantised.dequantize())
    return _packed_product(quantised, fewer_bits())


def _product_of_rows(weight_int8: Tensor, scale: Tensor) -> LinearLayer:
    """The same of some rows; torch packs them in less time with one scale."""
    if fewer_bits() is None:
        return _float_product(weight_int8 * scale[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch._make_per_tensor_quantized_tensor(weight_int8, 1.0, 0)
    product = _packed_product(quantised, fewer_bits())
    return lambda x: product(x) * scale


def _packed_product(quantised: Tensor, reduce_range: bool) -> LinearLayer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packed = torch.ops.quantized.linear_prepack(quantised, None)
    # The scale and the zero point of inputs from -1 to 1.
    n_levels = 128 if reduce_range else 256
    product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    return lambda x: product(x, 2 / (n_levels - 1), n_levels // 2, packed)


def _float_product(weight: Tensor) -> LinearLayer:
    """The same numbers without the speed, where torch has no products of integers."""
    return lambda x: F.linear((x * 127.5).round().clamp_(-128, 127) / 127.5, weight)
