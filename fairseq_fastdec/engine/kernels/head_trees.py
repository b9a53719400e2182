"""Trees of the tokens that heads find most probable: heads, ranking and trees in one call."""

import ctypes
from typing import Optional

import torch
from torch import Tensor

from . import loading, problems, structures
from .heads import CompiledHeads
from .loading import Library
from .packed import Packed
from .top_k import FEW_SCORES, TopK


class HeadTrees:
    """From rows' states to trees of the most probable paths; for one thread at a time.

    The memory of all that lies in between stays between calls.
    """

    def __init__(
        self,
        library: Library,
        heads: CompiledHeads,
        layer: Packed,
        top_k: TopK,
        temperature: float,
    ) -> None:
        """
        Args:
            heads: p_2 and those after it.
            layer: the output layer, from a state of a head to the logits of the first V types.
            top_k: ranks the logits.
            temperature: divides them.
        """
        self._library = library
        self.heads, self.layer = heads, layer  # whose memory is read
        self._options = top_k  # whose memory is read, too
        self._heads = structures.Heads.from_buffer_copy(heads.structure)
        self._product = structures.Product(linear=layer.structure, threads=self._heads.threads)
        self._top_k = structures.TopK.from_buffer_copy(top_k.structure)
        self._scores = (ctypes.c_void_p * 1)()
        self._top_k.n_types, self._top_k.n_members = layer.structure.outputs, 1
        self._top_k.normalize, self._top_k.n_parts = True, 1
        self._top_k.scores = ctypes.addressof(self._scores)
        self._parts = (self._heads, self._product, self._top_k)
        addresses = map(ctypes.addressof, self._parts)
        self._task = structures.HeadTrees(*addresses, temperature=temperature)
        self._address = ctypes.c_void_p(ctypes.addressof(self._task))
        self._sizes = (0, 0, 0)

    @classmethod
    def of(
        cls,
        heads: CompiledHeads,
        layer: Packed,
        top_k: Optional[TopK],
        temperature: float,
    ) -> Optional["HeadTrees"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        if library is None or top_k is None:
            return None
        return cls(library, heads, layer, top_k, temperature)

    def grow(
        self,
        states: int,
        n_rows: int,
        trees: structures.Trees,
        no_end: Optional[Tensor] = None,
        has_to_end: Optional[Tensor] = None,
    ) -> int:
        """Make trees behind these states.

        Args:
            states: the address of fp32 ``[R, C]``. Who calls this answers for its size.
            trees: with the number of proposals, and where all goes but the ranked tokens.
            no_end, has_to_end: bool ``[R, heads]``, whether EOS is not possible, or nothing else,
                at each head's step (default: any token is, everywhere).

        Returns:
            how many tokens the longest tree has, the root among them.

        Raises:
            IndexError, ValueError: for numbers of other kinds.
        """
        # No path of a tree needs more of a head's tokens than the tree has.
        n_best = max(1, min(trees.n_proposals, self._top_k.n_types))
        sizes = (n_rows, n_best, self._library.n_threads)
        if sizes != self._sizes:
            self._take_sizes(*sizes)
        n = self._top_k.n_rows
        self._top_k.no_end = problems.flags(no_end, n, "no_end")
        self._top_k.has_to_end = problems.flags(has_to_end, n, "has_to_end")
        self._heads.x = states
        trees.n_rows, trees.n_heads, trees.n_best = n_rows, self._heads.n_heads, n_best
        trees.scores, trees.ranked = self._top_k.best, self._top_k.tokens
        self._task.trees = ctypes.addressof(trees)
        longest = self._library.grow_head_trees(self._address)
        problems.check(-min(longest, 0))
        return longest

    def _take_sizes(self, n_rows: int, n_best: int, n_threads: int) -> None:
        heads, product, top_k = self._parts
        n = n_rows * heads.n_heads
        heads.n, product.n = n_rows, n
        top_k.n_rows = top_k.n_beams = n
        top_k.n_best = top_k.n_per_row = n_best
        heads.n_threads = product.n_threads = n_threads
        few = n * top_k.n_types < FEW_SCORES
        top_k.n_threads = 1 if few else n_threads
        self._reserve(n)
        self._sizes = (n_rows, n_best, n_threads)

    def _reserve(self, n: int) -> None:
        """Make room for n states of heads, and join the parts."""
        heads, product, top_k = self._parts
        size = self._library.heads_scratch_size(ctypes.byref(heads))
        of_top_k = self._library.top_k_scratch_size(ctypes.byref(top_k))
        of_product = self._library.product_scratch_size(n, product.linear.inputs)
        self._memory = [
            torch.empty(size),
            torch.empty(n, product.linear.inputs),
            torch.empty(of_product),
            torch.empty(n, product.linear.outputs),
            torch.empty(of_top_k, dtype=torch.uint8),
            torch.empty(n, top_k.n_best),
            torch.empty(n, top_k.n_best, dtype=torch.long),
        ]
        places = [memory.data_ptr() for memory in self._memory]
        heads.scratch, heads.y, product.scratch, product.y = places[:4]
        top_k.scratch, top_k.best, top_k.tokens = places[4:]
        heads.scratch_size = size
        product.x, self._scores[0] = heads.y, product.y
