"""Products by compiled code."""

import ctypes
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from . import structures
from .loading import Library, library


class PackedLinear:
    """``y = x weight^T + bias`` in fp32 on a CPU; weight ``[out, in]``, bias ``[out]`` or ``None``.

    The weight is kept as ``step.cpp`` reads it: ``[blocks, in, block]``, the last block filled up.
    A product with one to four tokens takes a fifth to a half of the time of oneDNN's, which begins
    with some 20 microseconds; from a hundred tokens on the two are alike, and ``F.linear`` takes
    twice as long (2 cores with AVX-512, 256 x 256 to 512 x 37000). Sums are the same for a token
    alone as among others, and for any number of threads.
    """

    def __init__(self, compiled: Library, weight: Tensor, bias: Optional[Tensor]) -> None:
        self._library = compiled
        self._n_outputs, n_inputs = weight.shape
        lacking = -self._n_outputs % compiled.block
        blocks = F.pad(weight, (0, 0, 0, lacking)).view(-1, compiled.block, n_inputs)
        self._weight = blocks.transpose(1, 2).contiguous()
        bias = weight.new_zeros(self._n_outputs) if bias is None else bias
        self._bias = F.pad(bias, (0, lacking))
        self.structure = structures.Linear(
            self._weight.data_ptr(), self._bias.data_ptr(), n_inputs, self._n_outputs
        )
        self._product = structures.Product(
            linear=self.structure, threads=compiled.address_of_threads()
        )
        self._address = ctypes.c_void_p(ctypes.addressof(self._product))

    @classmethod
    def of(cls, weight: Tensor, bias: Optional[Tensor]) -> Optional["PackedLinear"]:
        """The layer, or ``None`` for other numbers, or where nothing was compiled."""
        compiled = library()
        here = weight.device.type == "cpu" and weight.dtype == torch.float32
        return cls(compiled, weight, bias) if here and compiled is not None else None

    def __call__(self, x: Tensor) -> Tensor:
        """
        Raises:
            TypeError: for anything but fp32.
        """
        if x.dtype != torch.float32:
            raise TypeError(f"{x.dtype} where fp32 is multiplied")
        x = x.contiguous()
        n_inputs = self.structure.inputs
        y = x.new_empty(*x.shape[:-1], self._n_outputs)
        product = self._product
        product.n = x.numel() // n_inputs
        product.n_threads = self._library.n_threads
        product.x, product.y = x.data_ptr(), y.data_ptr()
        self._library.multiply(self._address)
        return y
