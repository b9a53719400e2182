"""Matrix products with weights that are laid out once for the processor."""

import functools
from typing import Callable, Optional, Protocol, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedBFloat16, PackedLinear

# oneDNN picks the blocked layout of a weight by the number of inputs it is to expect. The layout
# for this number is good for one input and for many.
EXPECTED_INPUTS = 8
# Up to so many weights, calling oneDNN takes longer than multiplying one token by them.
SMALL = 300_000


LinearLayer = Callable[[Tensor], Tensor]


class PlainLinear:
    """``y = x weight^T + bias``; weight ``[out, in]``, bias ``[out]`` or ``None``.

    On a CPU in fp32 the weight is packed for compiled code or, where there is none, kept in
    oneDNN's blocked layout: a product with that takes less time than ``F.linear``, and rounds alike
    whether a token comes alone or with others. Then small weights are kept transposed as well, for
    tokens that come alone.

    Attributes:
        packed: the compiled product, or ``None``.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        self.packed = PackedLinear.of(weight, bias)
        if self.packed is not None:
            return
        self._bias = bias
        # oneDNN has no layout for no numbers.
        here = weight.device.type == "cpu" and weight.numel() > 0
        self._blocked = here and can_block(weight.dtype)
        self._weight = _blocked(weight) if self._blocked else weight
        # In bf16 a token has to be rounded as it is among others: see ``equal_steps``.
        for_one = self._blocked and weight.dtype == torch.float32 and weight.numel() <= SMALL
        self._transposed = weight.t().contiguous() if for_one else None

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is not None:
            return self.packed(x)
        if self._transposed is not None and x.numel() == x.size(-1):
            return _product_with_one(x, self._transposed, self._bias)
        if self._blocked:
            return _blocked_product(x, self._weight, self._bias)
        return F.linear(x, self._weight, self._bias)


class BFloat16Linear:
    """The same product of numbers rounded to bf16; inputs and outputs keep the inputs' dtype.

    Compiled, where the processor has instructions for it, or else by torch, which rounds biases and
    outputs, too.

    Attributes:
        packed: the compiled product, or ``None``.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        self.packed = PackedBFloat16.of(weight, bias)
        if self.packed is None:
            self._rounded = PlainLinear(
                weight.bfloat16(), None if bias is None else bias.bfloat16()
            )

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is not None:
            return self.packed(x)
        return self._rounded(x.bfloat16()).to(x.dtype)


class Rows(Protocol):
    """The weights of a layer of which few outputs are computed at a time.

    Attributes:
        n_outputs: how many outputs there are.
    """

    n_outputs: int

    def take(self, outputs: Tensor) -> LinearLayer:
        """The layer of some outputs, int64 ``[K]``: from ``[..., in]`` to ``[..., K]``."""


class PlainRows:
    """:class:`Rows` of a :class:`PlainLinear`; those taken are laid out for the processor."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        self._weight = weight
        self._bias = bias
        self.n_outputs = weight.size(0)

    def take(self, outputs: Tensor) -> PlainLinear:
        """The layer of some outputs, int64 ``[K]``."""
        return PlainLinear(*self._taken(outputs))

    def _taken(self, outputs: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        # It takes less time than ``weight[outputs]``.
        weight = self._weight.index_select(0, outputs)
        return weight, None if self._bias is None else self._bias[outputs]


class BFloat16Rows(PlainRows):
    """The same of a :class:`BFloat16Linear`."""

    def take(self, outputs: Tensor) -> BFloat16Linear:
        """The layer of some outputs, int64 ``[K]``."""
        return BFloat16Linear(*self._taken(outputs))


@functools.lru_cache(maxsize=None)
def can_block(dtype: torch.dtype) -> bool:
    """Whether this torch offers oneDNN's blocked products, which are no public interface.

    They are tried out once, and distrusted if they fail or differ from ``F.linear``. oneDNN has
    fp32 and, on processors with instructions for it, bf16.
    """
    if not torch.backends.mkldnn.is_available() or not _onednn_has(dtype):
        return False
    weight, bias, x = (torch.rand(*shape).to(dtype) for shape in ((24, 16), (24,), (2, 3, 16)))
    try:
        product = _blocked_product(x, _blocked(weight), bias)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(product, F.linear(x, weight, bias), rtol=1e-2, atol=1e-5)


def _onednn_has(dtype: torch.dtype) -> bool:
    if dtype == torch.bfloat16:
        return getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)()
    return dtype == torch.float32


def _product_with_one(x: Tensor, transposed: Tensor, bias: Optional[Tensor]) -> Tensor:
    row = x.reshape(1, -1)
    product = row @ transposed if bias is None else torch.addmm(bias, row, transposed)
    return product.view(*x.shape[:-1], -1)


def _blocked(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), EXPECTED_INPUTS)


def _blocked_product(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
