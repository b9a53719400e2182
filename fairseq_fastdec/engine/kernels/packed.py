"""Linear layers with weights as compiled code reads them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from . import loading
from .large_pages import WEIGHTS
from .parts import EnginePart

# Outputs that are packed at a time: an output layer may have a quarter of a million, of which a
# second copy would need too much memory. The number is a multiple of all blocks.
OUTPUTS_AT_ONCE = 4096
# No weight is so small; a channel of zeros must not divide by zero.
SMALLEST_SCALE = 1e-30
# Inputs of 0 are quantised to this, ``ZERO_POINT`` in cpp/quantize.h.
ZERO_POINT = 128


class PackedLinear:
    """``y = x weight^T + bias`` by compiled code, fp32 in and out.

    A token gives the same alone as among others, and for any number of threads. A layer does not
    change, so several threads may call it at once.

    Attributes:
        n_inputs, n_outputs: the sizes.
        part: the layer as the engine takes it.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None) -> None:
        """
        Args:
            weight: fp32 ``[outputs, inputs]`` on a CPU, both at least 1.
            bias: fp32 ``[outputs]`` or ``None``.

        Raises:
            ValueError: for a layer without inputs or outputs.
        """
        self.n_outputs, self.n_inputs = weight.shape
        if not weight.numel():
            raise ValueError("a layer without inputs or outputs")
        sizes = {"inputs": self.n_inputs, "outputs": self.n_outputs}
        filled_up = _filled_up(bias, self.n_outputs).numpy()
        self.part = EnginePart("Linear", {**sizes, "bias": filled_up, **self._weights(weight)})
        self._linear = self.part.built()

    def _weights(self, weight: Tensor) -> Any:
        """The arguments of ``_engine.Linear`` that hold the weight ``[blocks, inputs, BLOCK]``."""
        parts = weight.split(OUTPUTS_AT_ONCE)
        return {"weight": _in_blocks(parts, weight.shape, torch.float32, 1).numpy()}

    def __call__(self, x: Tensor) -> Tensor:
        """fp32 ``[..., inputs]`` to fp32 ``[..., outputs]``."""
        rows = x.reshape(-1, self.n_inputs).contiguous()
        y = self._linear(rows.numpy(), loading.n_threads())
        return torch.from_numpy(y).view(*x.shape[:-1], self.n_outputs)


class PackedBFloat16(PackedLinear):
    """The same of inputs and weights rounded to bf16; neither the bias nor a sum is rounded.

    The weight is kept as ``[blocks, pairs of inputs, BLOCK, PAIR]``, filled up with zeros.
    """

    def _weights(self, weight: Tensor) -> Any:
        parts, pair = weight.split(OUTPUTS_AT_ONCE), loading.library().PAIR
        packed = _in_blocks(parts, weight.shape, torch.bfloat16, pair)
        return {"weight": packed.view(torch.uint16).numpy()}


class PackedInt8(PackedLinear):
    """The same in 8-bit integers, symmetrically.

    Weights are quantised once, each output channel with its own scale; inputs as they come, token
    by token. Weights are kept as ``[blocks, groups of inputs, BLOCK, GROUP]``, filled up with
    zeros.
    """

    def _weights(self, weight: Tensor) -> Any:
        least, greatest = weight.aminmax(dim=1)
        scales = (torch.maximum(greatest, -least) / 127).clamp_min_(SMALLEST_SCALE)
        sums = []

        # The weight is never in memory as a whole in integers and packed at once.
        def quantized() -> Iterator[Tensor]:
            pairs = (tensor.split(OUTPUTS_AT_ONCE) for tensor in (weight, scales))
            for part, own_scales in zip(*pairs):
                integers = (part / own_scales[:, None]).round_().to(torch.int8)
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
    """A weight as ``[blocks, groups of inputs, BLOCK, group]``, filled up with zeros.

    Args:
        parts: of the weight, ``[OUTPUTS_AT_ONCE, inputs]`` each, the last one perhaps of fewer.
        shape: of the weight, ``[outputs, inputs]``.
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
    """Numbers of outputs fp32 ``[outputs]``, with zeros up to whole blocks; ``None``: zeros."""
    lacking = -n_outputs % loading.library().BLOCK
    if of_outputs is None:
        return torch.zeros(n_outputs + lacking)
    assert of_outputs.shape == (n_outputs,)
    return F.pad(of_outputs, (0, lacking)).contiguous()
