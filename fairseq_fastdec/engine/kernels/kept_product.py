"""The products of one layer between fixed places in memory, by compiled code."""

import ctypes

import torch

from . import problems, structures
from .packed import Packed


class KeptProduct:
    """``y = x weight^T + bias`` for callers that keep their memory; for one thread at a time."""

    def __init__(self, layer: Packed) -> None:
        self._library = layer.library
        self._layer = layer  # whose memory is read
        linear = layer.structure
        self._product = structures.Product(
            linear=linear, threads=self._library.address_of_threads()
        )
        self._address = ctypes.byref(self._product)
        # Without fp32 weights, each token needs so many floats for its inputs in fewer bits.
        self._needed = 0 if linear.weight else self._library.product_scratch_size(1, linear.inputs)
        self._scratch = torch.empty(0)

    def compute_at(self, x: int, n: int, y: int) -> None:
        """Compute fp32 ``[n, outputs]`` from fp32 ``[n, inputs]``.

        Args:
            x, y: their addresses. Who calls this answers for their sizes.
        """
        product = self._product
        product.n, product.n_threads = n, self._library.n_threads
        product.x, product.y = x, y
        if n * self._needed > self._scratch.numel():
            self._scratch = torch.empty(2 * n * self._needed)
            product.scratch = self._scratch.data_ptr()
        problems.check(self._library.multiply(self._address))
