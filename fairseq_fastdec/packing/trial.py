"""Tests whether a layer tolerates 8-bit integers.

The inputs of a token are quantised with one scale, determined by the largest. If a few channels are
much larger than the others, as in large multilingual models and deep encoders, the others are
rounded to zero, and the translations become gibberish.
"""

from typing import NamedTuple, Optional

from torch import Tensor
from torch.nn import functional as F

from .packed import PackedBFloat16, PackedInt8, PackedLinear

# The largest accepted change of a layer's outputs, relative to their size. Rounding to 8 bits
# changes them by about 0.01 if no channel is much larger than the others. Translations suffer from
# about 0.1 on.
LARGEST_ERROR = 0.05
# The number of outputs that are compared. Each is quantised separately, so a sample is enough.
OUTPUTS = 256


class Untried(NamedTuple):
    """A layer before its trial: the weight and bias of a ``PackedLinear``."""

    weight: Tensor
    bias: Optional[Tensor] = None


def tried(layer: Untried, x: Tensor) -> tuple[PackedLinear, float]:
    """Prepare a layer in 8-bit integers, or in bf16 if integers change its outputs too much.

    Args:
        x: inputs, fp32 ``[..., inputs]``.

    Returns:
        the layer, and the relative change of the outputs by 8-bit integers.
    """
    weight, bias = layer
    made: PackedLinear = PackedInt8(weight, bias)
    some = slice(None, None, max(1, weight.size(0) // OUTPUTS))
    # Without the bias, which is not quantised and would hide the error.
    rounded = made(x)[..., some] if bias is None else made(x)[..., some] - bias[some]
    error = relative_error(rounded, F.linear(x, weight[some]))
    return made if is_trusted(error) else PackedBFloat16(weight, bias), error


def is_trusted(error: float) -> bool:
    """Return True if a relative change is small enough, and not NaN."""
    return error <= LARGEST_ERROR


def relative_error(rounded: Tensor, exact: Tensor) -> float:
    """The distance between outputs, relative to the variation of the exact outputs over tokens.

    Their mean over tokens is a constant that carries no information, however large it is.

    Args:
        rounded, exact: ``[..., C]``.
    """
    exact = exact.flatten(0, -2)
    varies = (exact - exact.mean(dim=0)).norm()
    return float((rounded.flatten(0, -2) - exact).norm() / varies.clamp(min=1e-30))


def described(kept: list[str]) -> str:
    """The log message about layers that are kept in bf16."""
    return (
        "--engine-precision int8: kept in bf16, since 8-bit integers would change their outputs "
        f"by more than {LARGEST_ERROR:.0%}: {', '.join(kept)}"
    )
