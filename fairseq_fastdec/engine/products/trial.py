"""Layers are tried in 8-bit integers before they are trusted to them.

A token's inputs are quantised with one scale, that of the largest. Where a few channels are much
larger than the others (large multilingual models, deep encoders), these others are rounded away,
and translations become gibberish.
"""

from typing import Optional

from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedBFloat16, PackedInt8, PackedLinear

# A layer's outputs may change by this share of their size. Rounding inputs and weights to 8 bits
# changes them by 1 part in 100 where no channel stands out. Translations suffer from some 10 on.
LARGEST_ERROR = 0.05
# So many outputs are compared; each is quantised by itself, so they stand for the others.
OUTPUTS = 256


class Int8Trial:
    """``y = x weight^T + bias`` in 8-bit integers, until inputs come that they change too much.

    Attributes:
        layer: what computes it: in 8-bit integers or, after such inputs, in bf16.
        error: the largest change so far, as a share of the outputs.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        """
        Args:
            weight, bias: as those of :class:`~..kernels.packed.PackedLinear`.
        """
        self._weight, self._bias = weight, bias
        self.layer: PackedLinear = PackedInt8(weight, bias)
        self.error = 0.0

    def __call__(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if self.is_trusted:
            self.error = max(self.error, self._error(x, y))
            if not self.is_trusted:
                self.layer = PackedBFloat16(self._weight, self._bias)
                y = self.layer(x)
        return y

    @property
    def is_trusted(self) -> bool:
        """Whether no inputs were changed too much."""
        return self.error <= LARGEST_ERROR

    def _error(self, x: Tensor, y: Tensor) -> float:
        some = slice(None, None, max(1, self._weight.size(0) // OUTPUTS))
        # Biases are not quantised, and would hide what is.
        own = y[..., some] if self._bias is None else y[..., some] - self._bias[some]
        return relative_error(own, F.linear(x, self._weight[some]))


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
