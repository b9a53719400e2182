"""Linear layers with weights in the layout of compiled code."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from ..engine.kernels import loading
from ..engine.kernels.parts import EnginePart
from .large_pages import WEIGHTS

# Outputs that are packed at a time, a multiple of all block sizes. Packing a whole output layer at
# once, which can have 250,000 outputs, would need too much memory.
OUTPUTS_AT_ONCE = 4096
# Avoids division by zero for channels of zeros.
SMALLEST_SCALE = 1e-30
# Weights that are this close to whole multiples of a scale differ from them by rounding.
LARGEST_FRACTION = 1e-3
# The number of channels whose weights are examined first.
FEW_OUTPUTS = 64
# The quantised value of an input of 0, ``ZERO_POINT`` in cpp/rounded_inputs.h.
ZERO_POINT = 128


class PackedLinear:
    """``y = x weight^T + bias`` by compiled code, fp32 in and out.

    The result of a token depends neither on other tokens nor on the number of threads. Layers are
    immutable, so several threads may call one at once.

    Attributes:
        n_inputs, n_outputs: the sizes.
        part: the layer for the engine.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        """
        Args:
            weight: fp32 ``[outputs, inputs]`` on a CPU, both at least 1.
            bias: fp32 ``[outputs]`` or ``None``.

        Raises:
            ValueError: if the layer has no inputs or no outputs.
        """
        self.n_outputs, self.n_inputs = weight.shape
        if not weight.numel():
            raise ValueError("a layer without inputs or outputs")
        sizes = {"inputs": self.n_inputs, "outputs": self.n_outputs}
        filled_up = _filled_up(bias, self.n_outputs).numpy()
        self.part = EnginePart("Linear", {**sizes, "bias": filled_up, **self._weights(weight)})
        self._linear = self.part.built()

    def _weights(self, weight: Tensor) -> Any:
        """The arguments of ``_engine.Linear`` for the weight, here ``[blocks, inputs, BLOCK]``."""
        parts = weight.split(OUTPUTS_AT_ONCE)
        return {"weight": _in_blocks(parts, weight.shape, torch.float32, 1).numpy()}

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer to fp32 ``[..., inputs]``: fp32 ``[..., outputs]``."""
        rows = x.reshape(-1, self.n_inputs).contiguous()
        y = self._linear(rows.numpy(), loading.n_threads())
        return torch.from_numpy(y).view(*x.shape[:-1], self.n_outputs)


class PackedBFloat16(PackedLinear):
    """A linear layer with inputs and weights rounded to bf16; bias and sums are fp32.

    The weight is stored as ``[blocks, pairs of inputs, BLOCK, PAIR]``, padded with zeros.
    """

    def _weights(self, weight: Tensor) -> Any:
        parts, pair = weight.split(OUTPUTS_AT_ONCE), loading.library().PAIR
        packed = _in_blocks(parts, weight.shape, torch.bfloat16, pair)
        return {"weight": packed.view(torch.uint16).numpy()}


class PackedInt8(PackedLinear):
    """A linear layer in 8-bit integers, with symmetric quantisation.

    Weights have one scale per output channel, inputs one scale per token, which is computed in each
    call. The weights of models that were trained in 8-bit integers keep the scales of these.
    Weights are stored as ``[blocks, groups of inputs, BLOCK, GROUP]``, padded with zeros.
    """

    def _weights(self, weight: Tensor) -> Any:
        scales, sums = _scales(weight), []

        # A generator, so that the whole weight is never in memory as integers and packed at once.
        def quantized() -> Iterator[Tensor]:
            pairs = (tensor.split(OUTPUTS_AT_ONCE) for tensor in (weight, scales))
            for part, part_scales in zip(*pairs):
                integers = (part / part_scales[:, None]).round_().to(torch.int8)
                sums.append(integers.sum(dim=1, dtype=torch.int32))
                yield integers

        packed = _in_blocks(quantized(), weight.shape, torch.int8, loading.library().GROUP)
        lacking = -weight.size(0) % loading.library().BLOCK
        return {
            "weight": packed.numpy(),
            "scales": _filled_up(scales, weight.size(0)).numpy(),
            "compensation": F.pad(-ZERO_POINT * torch.cat(sums), (0, lacking)).numpy(),
        }


def _scales(weight: Tensor) -> Tensor:
    """The scale of each output channel, fp32 ``[outputs]``, for fp32 ``[outputs, inputs]``.

    By default the largest weight becomes 127. If all weights of a channel are whole multiples of
    another scale, up to 127, rounding to that is exact.
    """
    least, greatest = weight.aminmax(dim=1)
    scales = (torch.maximum(greatest, -least) / 127).clamp_min_(SMALLEST_SCALE)
    # Most models have no such channel; looking at all of a large layer would take long.
    if not _are_multiples(weight[:FEW_OUTPUTS], _smallest(weight[:FEW_OUTPUTS])).any():
        return scales
    for first in range(0, weight.size(0), OUTPUTS_AT_ONCE):
        part = weight[first : first + OUTPUTS_AT_ONCE]
        steps = _smallest(part)
        exact = _are_multiples(part, steps)
        # A channel without a weight of one step has the step of the next or the last one that has.
        known = exact.nonzero().squeeze(1)
        after = torch.searchsorted(known, torch.arange(part.size(0)))
        for neighbour in (after, after - 1) if known.numel() else ():
            nearest = known[neighbour.clamp(0, known.numel() - 1)]
            steps = torch.where(exact, steps, steps[nearest])
            exact = _are_multiples(part, steps)
        own = scales[first : first + OUTPUTS_AT_ONCE]
        own.copy_(torch.where(exact, steps, own))
    return scales


def _smallest(weight: Tensor) -> Tensor:
    """The smallest size of a weight of each channel that is not zero."""
    sizes = weight.abs()
    return sizes.masked_fill(sizes < SMALLEST_SCALE, torch.inf).amin(dim=1)


def _are_multiples(weight: Tensor, steps: Tensor) -> Tensor:
    """Whether all weights of each channel are whole multiples of a step, up to 127."""
    counts = weight / steps[:, None]
    is_whole = (counts - counts.round()).abs().amax(dim=1) < LARGEST_FRACTION
    return is_whole & steps.isfinite() & (counts.abs().amax(dim=1) < 127.5)


def _in_blocks(
    parts: Iterable[Tensor], shape: Sequence[int], dtype: torch.dtype, group: int
) -> Tensor:
    """Pack a weight as ``[blocks, groups of inputs, BLOCK, group]``, padded with zeros.

    Args:
        parts: parts of the weight, ``[OUTPUTS_AT_ONCE, inputs]`` each; the last may be smaller.
        shape: the shape of the weight, ``[outputs, inputs]``.
    """
    n_outputs, n_inputs = shape
    block = loading.library().BLOCK
    lacking = -n_inputs % group
    size = (n_outputs + -n_outputs % block) * (n_inputs + lacking)
    packed, begin = WEIGHTS.empty(size, dtype), 0
    for part in parts:
        part = F.pad(part.to(dtype), (0, lacking, 0, -part.size(0) % block))
        end = begin + part.numel()
        grouped = part.view(-1, block, part.size(1) // group, group).transpose(1, 2)
        packed[begin:end].view(grouped.shape).copy_(grouped)
        begin = end
    return packed


def _filled_up(of_outputs: Optional[Tensor], n_outputs: int) -> Tensor:
    """Pad a value per output, fp32 ``[outputs]``, to whole blocks; ``None`` stands for zeros."""
    lacking = -n_outputs % loading.library().BLOCK
    if of_outputs is None:
        return torch.zeros(n_outputs + lacking)
    assert of_outputs.shape == (n_outputs,)
    return F.pad(of_outputs, (0, lacking)).contiguous()
