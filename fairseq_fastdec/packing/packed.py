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
# The quantised value of an input of 0, ``ZERO_POINT`` in cpp/quantize.h.
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
    call. Weights are stored as ``[blocks, groups of inputs, BLOCK, GROUP]``, padded with zeros.
    """

    def _weights(self, weight: Tensor) -> Any:
        least, greatest = weight.aminmax(dim=1)
        scales = (torch.maximum(greatest, -least) / 127).clamp_min_(SMALLEST_SCALE)
        sums = []

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
