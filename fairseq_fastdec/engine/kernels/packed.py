"""Products by compiled code."""

import ctypes
import math
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from . import problems, structures
from .loading import Library, library


class Packed:
    """``y = x weight^T + bias`` with weights as ``step.cpp`` reads them, fp32 in and out.

    A token gives the same alone as among others, and for any number of threads.

    Attributes:
        structure: the layer, for the compiled step.
    """

    def __init__(self, compiled: Library, linear: structures.Linear, memory: tuple) -> None:
        """
        Args:
            memory: the tensors that ``linear`` points to.
        """
        self._library = compiled
        # How many floats a token needs meanwhile.
        self._scratch = 0 if linear.weight else compiled.size_of_narrow(1, linear.inputs)
        self._memory = memory
        self._n_inputs, self._n_outputs = linear.inputs, linear.outputs
        self.structure = linear
        self._product = structures.Product(linear=linear, threads=compiled.address_of_threads())
        self._address = ctypes.c_void_p(ctypes.addressof(self._product))

    def __call__(self, x: Tensor, out: Optional[Tensor] = None) -> Tensor:
        """
        Args:
            out: where to write the result, as many numbers or more (default: new memory).

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
        product = self._product
        product.n = n = x.numel() // self._n_inputs
        product.n_threads = self._library.n_threads
        product.x = problems.address(x, x.numel(), "inputs", torch.float32)
        product.y = problems.address(y, n * self._n_outputs, "outputs", torch.float32)
        if self._scratch:
            scratch = x.new_empty(product.n * self._scratch)
            product.scratch = scratch.data_ptr()
        problems.check(self._library.multiply(self._address))
        return y


class PackedLinear(Packed):
    """In fp32; weight ``[out, in]``, bias ``[out]`` or ``None``.

    The weight is kept as ``[blocks, in, block]``, the last block filled up. A product with one to
    four tokens takes a fifth to a half of the time of oneDNN's, which begins with some 20
    microseconds; from a hundred tokens on the two are alike, and ``F.linear`` takes twice as long
    (2 cores with AVX-512, 256 x 256 to 512 x 37000).
    """

    def __init__(self, compiled: Library, weight: Tensor, bias: Optional[Tensor]) -> None:
        n_outputs, n_inputs = weight.shape
        lacking = -n_outputs % compiled.block
        blocks = F.pad(weight, (0, 0, 0, lacking)).view(-1, compiled.block, n_inputs)
        memory = (blocks.transpose(1, 2).contiguous(), _filled(bias, n_outputs, lacking))
        linear = structures.Linear(inputs=n_inputs, outputs=n_outputs)
        linear.weight, linear.bias = (tensor.data_ptr() for tensor in memory)
        super().__init__(compiled, linear, memory)

    @classmethod
    def of(cls, weight: Tensor, bias: Optional[Tensor]) -> Optional["PackedLinear"]:
        """The layer, or ``None`` for other or no numbers, or where nothing was compiled."""
        compiled = library()
        if compiled is None or weight.dtype != torch.float32 or not _can_be_packed(weight):
            return None
        return cls(compiled, weight, bias)


class PackedHalves(Packed):
    """Of inputs and weights rounded to bf16, summed up in fp32; neither bias nor sum is rounded.

    The weight is kept as ``[blocks, pairs of inputs, block, pair]``, filled up with zeros. A
    product takes half of the time of that in fp32, with any number of tokens (AVX512-BF16, 256 x
    512 to 512 x 37000).
    """

    def __init__(self, compiled: Library, weight: Tensor, bias: Optional[Tensor]) -> None:
        n_outputs, n_inputs = weight.shape
        lacking = -n_outputs % compiled.block
        filled = F.pad(weight.bfloat16(), (0, -n_inputs % compiled.pair, 0, lacking))
        memory = (
            _grouped(filled, compiled.block, compiled.pair),
            _filled(bias, n_outputs, lacking),
        )
        linear = structures.Linear(inputs=n_inputs, outputs=n_outputs)
        linear.halves, linear.bias = (tensor.data_ptr() for tensor in memory)
        super().__init__(compiled, linear, memory)

    @classmethod
    def of(cls, weight: Tensor, bias: Optional[Tensor]) -> Optional["PackedHalves"]:
        """The layer of fp32 ``[out, in]`` and ``[out]``.

        Returns:
            ``None`` elsewhere than on a CPU, of no numbers, where nothing was compiled, or where
            the processor has no instructions for it
        """
        compiled = library()
        if compiled is None or not compiled.has_halves or not _can_be_packed(weight):
            return None
        return cls(compiled, weight, bias)


class PackedCodes(Packed):
    """In 8-bit integers; each token is quantised by itself, with 127 steps on either side of 0.

    Codes are kept as ``[blocks, groups of inputs, block, group]``, filled up with zeros.
    """

    def __init__(
        self, compiled: Library, codes: Tensor, units: Tensor, bias: Optional[Tensor]
    ) -> None:
        n_outputs, n_inputs = codes.shape
        lacking = -n_outputs % compiled.block
        filled = F.pad(codes, (0, -n_inputs % compiled.group, 0, lacking))
        memory = (
            _grouped(filled, compiled.block, compiled.group),
            # An input of 0 has the code 128.
            -128 * filled.sum(dim=1, dtype=torch.int32),
            _filled(units, n_outputs, lacking),
            _filled(bias, n_outputs, lacking),
        )
        linear = structures.Linear(inputs=n_inputs, outputs=n_outputs)
        linear.codes, linear.starts, linear.units, linear.bias = (
            tensor.data_ptr() for tensor in memory
        )
        super().__init__(compiled, linear, memory)

    @classmethod
    def of(cls, codes: Tensor, units: Tensor, bias: Optional[Tensor]) -> Optional["PackedCodes"]:
        """The layer of weights ``codes * units[:, None]``.

        Args:
            codes: int8 ``[out, in]``, from -127 to 127, on a CPU.
            units: fp32 ``[out]``.

        Returns:
            ``None`` for no numbers, where nothing was compiled, or the processor has no
            instructions for it.
        """
        compiled = library()
        if compiled is None or not compiled.has_codes or not _can_be_packed(codes):
            return None
        return cls(compiled, codes, units, bias)


def _can_be_packed(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.numel() > 0


def _grouped(weight: Tensor, block: int, group: int) -> Tensor:
    """``[out, in]``, multiples of both, as ``[blocks, groups of inputs, block, group]``."""
    return weight.view(-1, block, weight.size(1) // group, group).transpose(1, 2).contiguous()


def _filled(of_outputs: Optional[Tensor], n_outputs: int, lacking: int) -> Tensor:
    """A bias or units, fp32 ``[out]``, with zeros behind them; zeros for ``None``.

    Raises:
        ValueError: for others.
    """
    if of_outputs is None:
        return torch.zeros(n_outputs + lacking)
    problems.address(of_outputs.contiguous(), n_outputs, "one number an output", torch.float32)
    return F.pad(of_outputs, (0, lacking)).contiguous()
