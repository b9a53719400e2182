"""Blocks are fed and judged, and rows keep what is accepted, in one call of compiled code."""

import ctypes
from typing import Optional, Tuple

import torch
from torch import Tensor

from . import loading, problems, structures
from .best_token import BestToken
from .blocks import RowBlocks
from .heads import CompiledHeads
from .loading import Library
from .transformer import Transformer


class Verification:
    """The verification of Stern et al. 2018 (section 3), whatever the proposals came from.

    For one thread at a time.
    """

    def __init__(
        self,
        library: Library,
        blocks: RowBlocks,
        transformer: Transformer,
        best: BestToken,
        heads: Optional[CompiledHeads],
    ) -> None:
        """
        Args:
            transformer: the decoder, whose rows those of the blocks are.
            best: chooses p_1's answers.
            heads: p_1's own layer (default: its states are the features).
        """
        self._library = library
        self.parts = (blocks, transformer, best, heads)
        self._blocks, self._step, self._best = (
            blocks.structure,
            transformer.structure,
            best.structure,
        )
        self._task = structures.Verification(
            ctypes.addressof(self._step),
            None,
            None,
            ctypes.addressof(self._best),
            ctypes.addressof(self._blocks),
            None,
        )
        if heads is not None:
            self._states = torch.empty_like(blocks.features)
            self._task.heads = ctypes.addressof(heads.structure)
            self._task.states = self._states.data_ptr()
        self._address = ctypes.c_void_p(ctypes.addressof(self._task))

    @classmethod
    def of(
        cls,
        blocks: RowBlocks,
        transformer: Transformer,
        best: BestToken,
        heads: Optional[CompiledHeads] = None,
    ) -> Optional["Verification"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, blocks, transformer, best, heads)

    def run(
        self,
        no_end: Optional[Tensor],
        only_end: Optional[Tensor],
        n_known: int,
        chains: Optional[int] = None,
    ) -> Optional[int]:
        """Feed the blocks; the rows take the longest accepted beginnings, or paths.

        Rows end by an EOS in what they take, and by one that is their next token. What they take of
        chains is added to their lengths, :attr:`lengths` are those; of trees the caller commits it.

        Args:
            no_end, only_end: bool ``[R, T]``, as for :class:`BestToken`.
            n_known: 1 if the rows have their blocks' first tokens already.
            chains: the task of :meth:`CompiledDrafter.prepare_chains`, which is run, too, where no
                row has ended; see :attr:`n_drafted`.

        Returns:
            how many rows have ended, now or before; ``None`` if some part wants more scratch memory
            than it has: then no row has changed, and a call of its own gives it what it wants.

        Raises:
            IndexError, ValueError: as the parts do.
        """
        step, best = self._step, self._best
        step.n_threads = self._library.n_threads
        best.no_end = None if no_end is None else no_end.data_ptr()
        best.only_end = None if only_end is None else only_end.data_ptr()
        self._blocks.n_known = n_known
        self._task.chains = chains
        n_ended = self._library.verify(self._address)
        if n_ended == -problems.OUT_OF_SCRATCH:
            return None
        problems.check(-min(n_ended, 0))
        return n_ended

    @property
    def n_drafted(self) -> int:
        """The number of steps of the last call's chains; 0 if there are none."""
        return self._task.n_drafted

    @property
    def lengths(self) -> Tuple[int, int]:
        """The shortest and the longest of the decoder's rows, after a call about chains."""
        return self._task.shortest, self._task.longest
