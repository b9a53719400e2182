"""Trees of proposals, by compiled code."""

import ctypes
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library


class Trees(NamedTuple):
    """A tree for each of R rows, the root first and each token behind the one that it follows.

    Attributes:
        tokens: int64 ``[R, T]``, padding behind those of a smaller tree.
        parents: int64 ``[R, T]``, the index of the token that each follows; -1 for the root.
        depths: int64 ``[R, T]``, how many tokens come before each.
    """

    tokens: Tensor
    parents: Tensor
    depths: Tensor


class TreeGrower:
    """Grows trees of the most probable paths; several threads may call it at once."""

    def __init__(self, library: Library, n_proposals: int, eos: int, pad: int) -> None:
        """
        Args:
            n_proposals: how many tokens there are to be besides the root, if there are so many.
            eos: nothing follows it.
        """
        self._library = library
        self._options = (n_proposals, eos, pad)

    @classmethod
    def of(cls, n_proposals: int, eos: int, pad: int) -> Optional["TreeGrower"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, n_proposals, eos, pad)

    def __call__(self, roots: Tensor, scores: np.ndarray, ranked: np.ndarray) -> Trees:
        """
        Args:
            roots: int64 ``[R]``.
            scores: float32 ``[R, heads, n]``, log-probabilities of each head's best tokens, best
                first; a path's is their sum.
            ranked: int64 ``[R, heads, n]``, those tokens.

        Raises:
            ValueError: for numbers of other kinds.
        """
        n_proposals, eos, pad = self._options
        n_rows, n_heads, n_best = scores.shape
        grown = torch.empty(3, n_rows * (1 + n_proposals), dtype=torch.long)
        tokens, parents, depths = grown.unbind()
        task = structures.Trees(
            n_rows=n_rows,
            n_heads=n_heads,
            n_best=n_best,
            n_proposals=n_proposals,
            eos=eos,
            pad=pad,
            roots=problems.address(roots, n_rows, "roots"),
            scores=problems.address(torch.from_numpy(scores), scores.size, "scores", torch.float32),
            ranked=problems.address(torch.from_numpy(ranked), scores.size, "tokens"),
            tokens=tokens.data_ptr(),
            parents=parents.data_ptr(),
            depths=depths.data_ptr(),
        )
        longest = self._library.grow_trees(ctypes.byref(task))
        problems.check(-min(longest, 0))
        return Trees(*(part[: n_rows * longest].view(n_rows, longest) for part in grown))
