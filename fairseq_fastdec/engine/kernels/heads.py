"""The prediction heads of blockwise models, by compiled code."""

import ctypes
from typing import Optional, Sequence

import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library
from .packed import Packed
from .scratch import Scratch


class CompiledHeads:
    """Some heads over features; for one thread at a time.

    Attributes:
        structure: the heads, as other structures take them.
    """

    def __init__(
        self,
        library: Library,
        layers: Sequence[Packed],
        hidden: structures.Linear,
        outputs: Sequence[structures.Linear],
        n_heads: int,
        gelu: bool,
    ) -> None:
        """
        Args:
            layers: whose memory ``hidden`` and ``outputs`` point to.
            hidden, outputs, n_heads, gelu: as for :meth:`of`.
        """
        self._library = library
        self._layers = layers
        self._outputs = (structures.Linear * len(outputs))(*outputs)
        self.structure = structures.Heads(
            hidden=hidden,
            outputs=ctypes.addressof(self._outputs),
            threads=library.address_of_threads(),
            n_outputs=len(outputs),
            n_heads=n_heads,
            gelu=gelu,
        )
        self._scratch = Scratch(self.structure, library.run_heads, library.heads_scratch_size)
        self._n_heads, self._dim = n_heads, hidden.inputs

    @classmethod
    def of(
        cls,
        hidden: Optional[Packed],
        outputs: Sequence[Optional[Packed]],
        n_heads: int,
        gelu: bool,
    ) -> Optional["CompiledHeads"]:
        """The heads of packed layers; ``None`` for others, or where nothing was compiled.

        Args:
            hidden: from C numbers to the hidden units.
            outputs: one layer, from all units to ``n_heads * C`` numbers; or one for each head,
                from its own share of the units to C numbers.
            gelu: whether the activation is GELU, and not ReLU.
        """
        library = loading.library()
        if library is None or hidden is None or not all(outputs):
            return None
        own = [output.structure for output in outputs]
        return cls(library, (hidden, *outputs), hidden.structure, own, n_heads, gelu)

    def first(self, n: int) -> "CompiledHeads":
        """The first n of these heads, in the same memory."""
        layers = (self.structure.hidden, *self._outputs)
        hidden, *outputs = (structures.Linear.from_buffer_copy(layer) for layer in layers)
        if len(outputs) == 1:
            # Outputs of a layer lie block by block, so the first ones are a layer, too.
            outputs[0].outputs = n * self._dim
        else:
            hidden.outputs = n * outputs[0].inputs
        gelu = bool(self.structure.gelu)
        return CompiledHeads(self._library, self._layers, hidden, outputs[:n], n, gelu)

    def __call__(self, features: Tensor) -> Tensor:
        """fp32 ``[..., C]`` to ``[..., n_heads, C]``.

        Raises:
            ValueError: for other numbers.
        """
        features = features.contiguous()
        n = features.numel() // self._dim
        y = features.new_empty((*features.shape[:-1], self._n_heads, self._dim))
        place = problems.address(features, n * self._dim, "features", torch.float32)
        self.compute_at(place, n, y.data_ptr())
        return y

    def compute_at(self, features: int, n: int, y: int) -> None:
        """A call between places in memory, for callers that keep theirs.

        Args:
            features, y: the addresses of what a call takes and returns for n positions. Who calls
                this answers for their sizes.
        """
        task = self.structure
        task.n, task.n_threads, task.x, task.y = n, self._library.n_threads, features, y
        self._scratch.run()
