"""Matrix products with weights that are laid out once for the processor."""

import functools
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# oneDNN picks the blocked layout of a weight by the number of inputs it is to expect; this one
# loses nothing measurable from 1 to 160 inputs.
EXPECTED_INPUTS = 8


class Linear:
    """``y = x weight^T + bias``; weight ``[out, in]``, bias ``[out]`` or ``None``.

    On a CPU in fp32 the weight is kept a second time in oneDNN's blocked layout: a product with it
    takes a half to a third of ``F.linear``'s time at any number of inputs from 1 to 160 (2 cores
    with AVX-512, 512 x 2048 and 512 x 37000), and rounds alike whether a token comes alone or with
    others.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        self._weight = weight.detach()
        self._bias = None if bias is None else bias.detach()
        self._blocked: Optional[Tensor] = None
        if weight.device.type == "cpu" and weight.dtype == torch.float32 and can_block():
            self._blocked = _blocked(self._weight)

    @classmethod
    def of(cls, module: Optional[nn.Linear]) -> Optional["Linear"]:
        """The same layer with a prepared weight; ``None`` stays ``None``."""
        return None if module is None else cls(module.weight, module.bias)

    def __call__(self, x: Tensor) -> Tensor:
        if self._blocked is None:
            return F.linear(x, self._weight, self._bias)
        return _blocked_product(x, self._blocked, self._bias)


@functools.lru_cache(maxsize=None)
def can_block() -> bool:
    """Whether this torch offers oneDNN's blocked products, which are no public interface.

    They are tried out once, and distrusted if they fail or differ from ``F.linear``.
    """
    if not torch.backends.mkldnn.is_available():
        return False
    weight, bias, x = torch.rand(24, 16), torch.rand(24), torch.rand(2, 3, 16)
    try:
        product = _blocked_product(x, _blocked(weight), bias)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(product, F.linear(x, weight, bias), atol=1e-5)


def _blocked(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), EXPECTED_INPUTS)


def _blocked_product(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
