"""Layers are tried in 8-bit integers before they are trusted to them.

A token's inputs are quantised with one scale, that of the largest. Where a few channels are much
larger than the others (large multilingual models, deep encoders), these others are rounded away,
and translations become gibberish.
"""

from typing import NamedTuple, Optional

from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedBFloat16, PackedInt8, PackedLinear

# A layer's outputs may change by this share of their size. Rounding inputs and weights to 8 bits
# changes them by 1 part in 100 where no channel stands out. Translations suffer from some 10 on.
LARGEST_ERROR = 0.05
# So many outputs are compared; each is quantised by itself, so they stand for the others.
OUTPUTS = 256


class Untried(NamedTuple):
    """A layer before its trial: weight and bias as those of ``PackedLinear``."""

    weight: Tensor
    bias: Optional[Tensor] = None


def tried(layer: Untried, x: Tensor) -> tuple[PackedLinear, float]:
    """A layer in 8-bit integers or, if these change its outputs too much, in bf16.

    Args:
        x: inputs, fp32 ``[..., inputs]``.

    Returns:
        the layer, and the change that 8-bit integers make, as a share of the outputs.
    """
    weight, bias = layer
    made: PackedLinear = PackedInt8(weight, bias)
    some = slice(None, None, max(1, weight.size(0) // OUTPUTS))
    # Biases are not quantised, and would hide what is.
    own = made(x)[..., some] if bias is None else made(x)[..., some] - bias[some]
    error = relative_error(own, F.linear(x, weight[some]))
    return made if is_trusted(error) else PackedBFloat16(weight, bias), error


def is_trusted(error: float) -> bool:
    """Whether a change is small enough; that of numbers which are not finite is not."""
    return error <= LARGEST_ERROR


def relative_error(own: Tensor, exact: Tensor) -> float:
    """The distance, as a share of what distinguishes tokens: the distances from their mean.

    What all tokens have in common is a constant, however large, and tells nothing.

    Args:
        own, exact: ``[..., C]``.
    """
    exact = exact.flatten(0, -2)
    varies = (exact - exact.mean(dim=0)).norm()
    return float((own.flatten(0, -2) - exact).norm() / varies.clamp(min=1e-30))


def described(kept: list[str]) -> str:
    """The log's line about layers that were not trusted."""
    return (
        "--engine-precision int8: kept in bf16, since 8-bit integers would change their outputs "
        f"by more than {LARGEST_ERROR:.0%}: {', '.join(kept)}"
    )
