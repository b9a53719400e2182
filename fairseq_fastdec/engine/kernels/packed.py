"""Linear layers with weights as compiled code reads them."""

import ctypes
import math
from typing import Dict, Iterable, Iterator, Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from . import loading, problems, structures
from .large_pages import WEIGHTS
from .loading import Library

# So many outputs are packed at a time: an output layer may have a quarter of a million, of which a
# second copy would be too much. The number is a multiple of all blocks.
OUTPUTS_AT_ONCE = 4096


class Packed:
    """``y = x weight^T + bias``, fp32 in and out.

    A token gives the same alone as among others, and for any number of threads. A layer does not
    change, so several threads may call it at once.

    Attributes:
        structure: the layer, as the compiled step takes it.
        tensors: the memory that it points to, by the names of :class:`_engine.Linear`'s arguments.
        library: the compiled code.
    """

    def __init__(
        self, library: Library, linear: structures.Linear, memory: Dict[str, Tensor]
    ) -> None:
        """
        Args:
            memory: the tensors that ``linear`` points to, see :attr:`tensors`.
        """
        self.library = library
        # Without fp32 weights, each token needs so many floats for its inputs in fewer bits.
        self._scratch = 0 if linear.weight else library.product_scratch_size(1, linear.inputs)
        self.tensors = memory
        self._n_inputs, self._n_outputs = linear.inputs, linear.outputs
        self.structure = linear
        self._product = structures.Product(linear=linear, threads=library.address_of_threads())

    @property
    def packed(self) -> "Packed":
        """Itself: layers of all kinds are asked for their compiled product."""
        return self

    @classmethod
    def is_available(cls) -> bool:
        """Whether there is compiled code for such layers, and the processor can run it."""
        return cls._usable_library() is not None

    @classmethod
    def _usable_library(cls) -> Optional[Library]:
        library = loading.library()
        return library if library is not None and cls._runs_with(library) else None

    @staticmethod
    def _runs_with(library: Library) -> bool:
        return True

    def __call__(self, x: Tensor, out: Optional[Tensor] = None) -> Tensor:
        """
        Args:
            x: fp32 ``[..., inputs]`` on a CPU.
            out: where to write the result, as many numbers or more (default: new memory).

        Returns:
            fp32 ``[..., outputs]``

        Raises:
            TypeError: for anything but fp32.
            ValueError: for inputs of another size, or elsewhere than on a CPU.
        """
        if x.dtype != torch.float32:
            raise TypeError(f"{x.dtype} where fp32 is multiplied")
        if x.size(-1) != self._n_inputs:
            raise ValueError(f"{x.size(-1)} inputs of a layer that has {self._n_inputs}")
        x = x.contiguous()
        shape = (*x.shape[:-1], self._n_outputs)
        y = x.new_empty(shape) if out is None else out[: math.prod(shape)].view(shape)
        # Each call has its own structure: another thread may be in the middle of a call.
        product = structures.Product.from_buffer_copy(self._product)
        product.n = n = x.numel() // self._n_inputs
        product.n_threads = self.library.n_threads
        product.x = problems.address(x, x.numel(), "inputs", torch.float32)
        product.y = problems.address(y, n * self._n_outputs, "outputs", torch.float32)
        if self._scratch:
            scratch = x.new_empty(n * self._scratch)
            product.scratch = scratch.data_ptr()
        problems.check(self.library.multiply(ctypes.byref(product)))
        return y


class PackedLinear(Packed):
    """A layer in fp32. The weight is kept as ``[blocks, inputs, block]``."""

    def __init__(self, library: Library, weight: Tensor, bias: Optional[Tensor]) -> None:
        n_outputs, n_inputs = weight.shape
        blocks = _in_blocks(weight.split(OUTPUTS_AT_ONCE), weight.shape, weight.dtype, library)
        memory = dict(weight=blocks, bias=_filled_up(bias, n_outputs, -n_outputs % library.block))
        linear = structures.Linear(inputs=n_inputs, outputs=n_outputs)
        linear.weight, linear.bias = (tensor.data_ptr() for tensor in memory.values())
        super().__init__(library, linear, memory)

    @classmethod
    def of(cls, weight: Tensor, bias: Optional[Tensor]) -> Optional["PackedLinear"]:
        """The layer of a weight ``[out, in]`` and a bias ``[out]`` or ``None``.

        Returns:
            ``None`` for other numbers than fp32, for none, elsewhere than on a CPU, or where
            nothing was compiled
        """
        library = cls._usable_library()
        if library is None or weight.dtype != torch.float32 or not _can_be_packed(weight):
            return None
        return cls(library, weight, bias)


class PackedBFloat16(Packed):
    """A layer of inputs and weights rounded to bf16; neither the bias nor a sum is rounded.

    The weight is kept as ``[blocks, pairs of inputs, block, pair]``, filled up with zeros.
    """

    def __init__(self, library: Library, weight: Tensor, bias: Optional[Tensor]) -> None:
        n_outputs, n_inputs = weight.shape
        parts = weight.split(OUTPUTS_AT_ONCE)
        memory = dict(
            weight=_in_blocks(parts, weight.shape, torch.bfloat16, library, library.pair),
            bias=_filled_up(bias, n_outputs, -n_outputs % library.block),
        )
        linear = structures.Linear(inputs=n_inputs, outputs=n_outputs)
        linear.weight_bf16, linear.bias = (tensor.data_ptr() for tensor in memory.values())
        super().__init__(library, linear, memory)

    @staticmethod
    def _runs_with(library: Library) -> bool:
        return library.has_bf16

    @classmethod
    def of(cls, weight: Tensor, bias: Optional[Tensor]) -> Optional["PackedBFloat16"]:
        """The layer of a weight ``[out, in]`` and a bias fp32 ``[out]`` or ``None``.

        Returns:
            ``None`` for no numbers, elsewhere than on a CPU, where nothing was compiled, or where
            the processor has no instructions for bf16
        """
        library = cls._usable_library()
        if library is None or not _can_be_packed(weight):
            return None
        return cls(library, weight, bias)


class PackedInt8(Packed):
    """A layer in 8-bit integers. Each token's inputs are quantised by themselves, symmetrically.

    Weights are kept as ``[blocks, groups of inputs, block, group]``, filled up with zeros.
    """

    # Inputs of 0 are quantised to this, ``ZERO_POINT`` in quantize.h.
    ZERO_POINT = 128

    def __init__(
        self, library: Library, parts: Iterable[Tensor], n_inputs: int, scales: Tensor,
        bias: Optional[Tensor],
    ) -> None:  # fmt: skip
        n_outputs = scales.size(0)
        lacking = -n_outputs % library.block
        sums = []

        def summed_up() -> Iterator[Tensor]:
            for part in parts:
                sums.append(part.sum(dim=1, dtype=torch.int32))
                yield part

        shape = n_outputs, n_inputs
        memory = dict(
            weight=_in_blocks(summed_up(), shape, torch.int8, library, library.group),
            compensation=F.pad(-self.ZERO_POINT * torch.cat(sums), (0, lacking)),
            scales=_filled_up(scales, n_outputs, lacking),
            bias=_filled_up(bias, n_outputs, lacking),
        )
        linear = structures.Linear(inputs=n_inputs, outputs=n_outputs)
        linear.weight_int8, linear.zero_point_compensation, linear.scales, linear.bias = (
            tensor.data_ptr() for tensor in memory.values()
        )
        super().__init__(library, linear, memory)

    @staticmethod
    def _runs_with(library: Library) -> bool:
        return library.has_int8

    @classmethod
    def of(
        cls, weight_int8: Tensor, scales: Tensor, bias: Optional[Tensor]
    ) -> Optional["PackedInt8"]:
        """The layer of weights ``scales[:, None] * weight_int8``.

        Args:
            weight_int8: int8 ``[out, in]``, from -127 to 127, on a CPU.
            scales: fp32 ``[out]``.
            bias: fp32 ``[out]`` or ``None``.

        Returns:
            ``None`` for no numbers, elsewhere than on a CPU, where nothing was compiled, or where
            the processor has no instructions for 8-bit integers
        """
        if weight_int8.device.type != "cpu":
            return None
        parts = weight_int8.split(OUTPUTS_AT_ONCE)
        return cls.of_parts(parts, weight_int8.size(1), scales, bias)

    @classmethod
    def of_parts(
        cls, parts: Iterable[Tensor], n_inputs: int, scales: Tensor, bias: Optional[Tensor]
    ) -> Optional["PackedInt8"]:
        """The same of a weight that is never in memory as a whole.

        Args:
            parts: int8 ``[OUTPUTS_AT_ONCE, in]``, the last one perhaps of fewer outputs; asked for
                one after the other, and not kept.
            n_inputs: of each.
            scales, bias: of all of them, as for :meth:`of`.
        """
        library = cls._usable_library()
        if library is None or n_inputs == 0 or scales.numel() == 0:
            return None
        return cls(library, parts, n_inputs, scales, bias)


def _can_be_packed(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.numel() > 0


def _in_blocks(
    parts: Iterable[Tensor], shape: Tuple[int, int], dtype: torch.dtype, library: Library,
    group: int = 1,
) -> Tensor:  # fmt: skip
    """A weight as ``[blocks, groups of inputs, block, group]``, filled up with zeros.

    Args:
        parts: of the weight, ``[OUTPUTS_AT_ONCE, in]`` each, the last one perhaps of fewer outputs.
        shape: of the weight, ``[out, in]``.
    """
    n_outputs, n_inputs = shape
    lacking_inputs = -n_inputs % group
    size = (n_outputs + -n_outputs % library.block) * (n_inputs + lacking_inputs)
    packed, begin = WEIGHTS.empty(size, dtype), 0
    for part in parts:
        part = F.pad(part.to(dtype), (0, lacking_inputs, 0, -part.size(0) % library.block))
        end = begin + part.numel()
        packed[begin:end] = _grouped(part, library.block, group).flatten()
        begin = end
    return packed


def _grouped(weight: Tensor, block: int, group: int) -> Tensor:
    """``[out, in]``, multiples of both, as ``[blocks, groups of inputs, block, group]``."""
    return weight.view(-1, block, weight.size(1) // group, group).transpose(1, 2).contiguous()


def _filled_up(of_outputs: Optional[Tensor], n_outputs: int, lacking: int) -> Tensor:
    """A bias or scales, fp32 ``[out]``, with zeros behind them; only zeros for ``None``.

    Raises:
        ValueError: for numbers of another dtype, or more or fewer.
    """
    if of_outputs is None:
        return torch.zeros(n_outputs + lacking)
    problems.address(of_outputs.contiguous(), n_outputs, "one number an output", torch.float32)
    return F.pad(of_outputs, (0, lacking)).contiguous()
