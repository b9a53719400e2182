"""Who takes a session's steps: compiled code, torch, or a recording of what torch did."""

from functools import partial
from operator import is_
from typing import Optional, Protocol, Tuple, Union

import torch
from torch import Tensor

from ..cuda_graphs.graphs import StepGraphs
from ..cuda_graphs.static_step import RowState, SourceLayout
from ..network.attention import CausalMasks, causal_mask, tree_mask
from ..network.compiled_decoder import CompiledDecoder
from ..network.forward import ForwardPass, RowKeys
from .caches import SessionCaches
from .row_table import RowTable
from .source_groups import SourceGroups
from .tree import TokenTree


class StepRunner(Protocol):
    """From tokens to features, for all rows of a table that are not paused."""

    def step(self, rows: RowTable, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """Compute T tokens of each row, and write their keys and values behind the row's own.

        Args:
            rows: of which there is at least one.
            tokens: int64 ``[R, T]``.
            tree: which of them follow which (default: each the one before).

        Returns:
            features ``[R, T, C]``.
        """


class CompiledRunner:
    """One call of compiled code a step.

    What the steps of the same rows have in common is handed over once, as long as it lies in the
    same memory.
    """

    def __init__(
        self, compiled: CompiledDecoder, forward_pass: ForwardPass, caches: SessionCaches
    ) -> None:
        self._compiled = compiled
        self._forward_pass = forward_pass
        self._caches = caches
        self._bound: Tuple[Optional[Tensor], ...] = ()
        self._rows: Optional[RowTable] = None
        self._version, self._room = -1, 0

    def step(self, rows: RowTable, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """See :meth:`StepRunner.step`.

        Raises:
            IndexError, ValueError: as the compiled decoder's step.
        """
        self.prepare(rows, tokens.size(1))
        return self._compiled.step(tokens, None if tree is None else tree.parents)

    def step_at(
        self, rows: RowTable, tokens: int, n_new: int, features: int, parents: Optional[int] = None
    ) -> None:
        """:meth:`step` between places in memory; see :meth:`Transformer.step_at`."""
        self.prepare(rows, n_new)
        self._compiled.step_at(tokens, n_new, features, parents)

    def prepare(self, rows: RowTable, n_new: int) -> None:
        """Make room for ``n_new`` tokens of each row, and hand over what lies elsewhere now."""
        is_known = rows is self._rows and rows.version == self._version
        if is_known and rows.longest + n_new <= self._room:
            return
        caches = self._caches
        caches.reserve_step(rows, n_new)
        memory = (
            rows.lengths,
            rows.row_source,
            rows.source_lengths,
            caches.rows.storage,
            caches.sources.storage,
            self._forward_pass.positions,
        )
        # A pause gives the rows other tensors, so their first slot needs no comparison.
        if not self._bound or not all(map(is_, memory, self._bound)):
            self._bind(rows, memory)
        self._rows, self._version, self._room = rows, rows.version, caches.rows.length

    def _bind(self, rows: RowTable, memory: Tuple[Optional[Tensor], ...]) -> None:
        caches = self._caches
        self._compiled.bind(
            (caches.rows, rows.n_paused),
            rows.lengths,
            caches.sources,
            rows.row_source,
            rows.source_lengths,
            self._forward_pass.positions,
        )
        self._bound = memory


class TorchRunner:
    """torch's operations, one by one."""

    def __init__(
        self,
        forward_pass: ForwardPass,
        caches: SessionCaches,
        tokens_per_step: int,
        device: torch.device,
    ) -> None:
        self._forward_pass = forward_pass
        self._caches = caches
        self._tokens_per_step = tokens_per_step
        self._masks = CausalMasks(caches.rows.dtype, device, tokens_per_step)
        self._sources = SourceGroups(caches)

    @torch.no_grad()
    def step(self, rows: RowTable, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """See :meth:`StepRunner.step`."""
        n_new = tokens.size(1)
        self._caches.reserve_step(rows, n_new)
        row_keys = RowKeys(
            self._caches.rows,
            slice(rows.n_paused, rows.n_slots),
            _places(rows, n_new),
            n_keys=rows.longest + n_new,
            mask=self._mask(rows, n_new, tree),
            depths=None if tree is None else tree.depths,
        )
        return self._forward_pass(tokens, row_keys, self._sources.keys(rows))

    def _mask(self, rows: RowTable, n_new: int, tree: Optional[TokenTree]) -> Optional[Tensor]:
        """The mask of self-attention: ``[R or 1, 1, T, L]``, ``None`` where all may be seen."""
        n_keys, dtype = rows.longest + n_new, self._caches.rows.dtype
        if tree is not None:
            return tree_mask(rows.lengths, tree.sees, n_keys, dtype)
        if rows.shortest == rows.longest:
            alone = n_new <= self._tokens_per_step
            return None if alone else self._masks.of(rows.longest, n_new)
        return causal_mask(rows.lengths, n_new, n_keys, dtype, self._tokens_per_step)


class GraphRunner:
    """Steps that are recorded and replayed, and another runner's where that is not possible."""

    def __init__(self, graphs: StepGraphs, eager: StepRunner) -> None:
        """
        Args:
            graphs: prepared for the same network as ``eager``.
            eager: takes the steps of trees, and those that are not recorded.
        """
        self._graphs = graphs
        self._eager = eager
        self._layout: Optional[SourceLayout] = None
        self._grouping: Optional[int] = None

    @torch.no_grad()
    def step(self, rows: RowTable, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """See :meth:`StepRunner.step`."""
        if tree is not None or not self._graphs.active:
            return self._eager.step(rows, tokens, tree)
        if self._layout is None or self._grouping != rows.grouping:
            self._layout = SourceLayout(rows.source_of_slots, rows.source_lengths)
            self._grouping = rows.grouping
        longest = max(rows.longest, rows.longest_paused)
        state = RowState(rows.lengths_of_slots, rows.n_paused, longest, self._layout)
        return self._graphs.step(state, tokens, partial(self._eager.step, rows, tokens))


def _places(rows: RowTable, n_new: int) -> Union[int, Tensor]:
    """Where the new tokens go: int64 ``[R, T]``, or the first place if all rows share that."""
    if rows.shortest == rows.longest:
        return rows.longest
    return rows.lengths[:, None] + torch.arange(n_new, device=rows.lengths.device)
