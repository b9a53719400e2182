"""Blocks of tokens that rows are fed: what is accepted of them and kept, by compiled code."""

import ctypes
from typing import Optional, Union

import numpy as np
import torch
from torch import Tensor

from . import loading, problems, structures
from .head_trees import HeadTrees
from .loading import Library
from .row_ends import place_outputs, place_rows


class RowBlocks:
    """The blocks of R rows, and what a search knows of the rows between two steps.

    A row's next token is certain: p_1's best token after the row's own. Its block begins with that
    token; proposals follow. All is kept at fixed addresses; T is the length of the blocks of now.
    For one thread at a time.

    Attributes:
        structure: as compiled code takes it.
        next_tokens: int64 ``[R]``.
        next_scores: float32 ``[R]``.
        states: float32 ``[R, C]``, each row's features at its last token.
        tokens, parents, depths: int64 ``[R, T]`` in the memory of more, the blocks; ``parents`` and
            ``depths`` of trees.
        path_scores: float32 ``[R, T]`` in the memory of more, of trees as they grew: the
            log-probability of the path to each token, ``-inf`` for padding.
        proposals: int64 ``[R, T - 1]`` in the memory of more.
        features: float32 ``[R, T, C]`` in the memory of more.
        answers, answer_scores: int64 and float32 ``[R, T]`` in the memory of more: p_1's best token
            after each of the block.
        asked, asked_scores: int64 and float32 ``[R, T]`` in the memory of more, the proposal after
            each token of a chain, and p_1's score of it.
        accepted, taken: int64 ``[R]``, how many tokens of each block, and how many the row has got.
        ended: int64 ``[R]``, 1 for the rows that :meth:`end_rows` has ended.
        rest, n_rest: int64 ``[R, most - 1]`` and ``[R]``, the answers to the rejected tokens of
            chains, guesses at what follows the next tokens, padded; and how many there are.
        path: int64 ``[R, T]`` in the memory of more, their places in a tree.
        n_new: T.
    """

    def __init__(self, library: Library, n_rows: int, most_new: int, dim: int) -> None:
        """
        Args:
            n_rows: the most rows; most_new: the most tokens of a block; dim: C.
        """
        self._library = library
        numbers = dict(dtype=torch.long)
        self.next_tokens = torch.zeros(n_rows, **numbers)
        self.next_scores = torch.zeros(n_rows)
        self.states = torch.zeros(n_rows, dim)
        self.accepted = torch.zeros(n_rows, **numbers)
        self.taken = torch.zeros(n_rows, **numbers)
        self.ended = torch.zeros(n_rows, **numbers)
        self._kept_counts = torch.zeros(n_rows, **numbers)
        self.rest = torch.zeros(n_rows, max(most_new - 1, 1), **numbers)
        self.n_rest = torch.zeros(n_rows, **numbers)
        most = n_rows * most_new
        self.tokens, self.parents, self.depths, self.proposals = torch.zeros(4, most, **numbers)
        self.answers, self.path, self.asked, self._kept = torch.zeros(4, most, **numbers)
        self.answer_scores, self.asked_scores, self._kept_scores, self.path_scores = torch.zeros(
            4, most
        )
        self.features = torch.zeros(most * dim)
        # A number of theirs costs less than a tensor's, or an array's.
        self._next_on_host = memoryview(self.next_tokens.numpy())
        self._accepted_on_host = memoryview(self.accepted.numpy())
        self._taken_on_host = memoryview(self.taken.numpy())
        self._ended_on_host = memoryview(self.ended.numpy())
        self.n_new = 1
        self.structure = structures.Blocks(dim=dim)
        for name in ("next_tokens", "next_scores", "states", "proposals", "tokens", "depths",
                     "features", "answers", "answer_scores", "accepted", "path", "ended", "rest",
                     "n_rest"):  # fmt: skip
            setattr(self.structure, name, getattr(self, name).data_ptr())
        # The part of the task; asked for it, a structure makes an object anew each time.
        self._append = self.structure.rows
        self.structure.kept_tokens = self._append.new_tokens = self._kept.data_ptr()
        self.structure.kept_scores = self._append.new_scores = self._kept_scores.data_ptr()
        self.structure.kept_counts = self._append.counts = self._kept_counts.data_ptr()
        self.structure.rest_width = self.rest.size(1)
        self._append.taken = self.taken.data_ptr()
        self._address = ctypes.c_void_p(ctypes.addressof(self.structure))
        self._address_of_parents = self.parents.data_ptr()
        self._most_rows, self._most_new, self._dim = n_rows, most_new, dim
        self._trees = structures.Trees(
            roots=self.next_tokens.data_ptr(),
            tokens=self.tokens.data_ptr(),
            parents=self.parents.data_ptr(),
            depths=self.depths.data_ptr(),
            path_scores=self.path_scores.data_ptr(),
        )

    @classmethod
    def of(cls, n_rows: int, most_new: int, dim: int) -> Optional["RowBlocks"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, n_rows, most_new, dim)

    def has_room_for(self, n_rows: int, most_new: int, dim: int) -> bool:
        """Whether rows, blocks and states of these sizes can use this memory."""
        return n_rows <= self._most_rows and (most_new, dim) == (self._most_new, self._dim)

    def write_to(self, tokens: Tensor, scores: Tensor, eos: int, pad: int) -> None:
        """Say where outputs go: int64 and float32 ``[B, W]``."""
        self.structure.pad = self._trees.pad = pad
        place_outputs(self._append, tokens, scores, eos)
        self._outputs = (tokens, scores)

    def bind(self, sentence: Tensor, lengths: Tensor, finished: Tensor) -> None:
        """Say which rows there are now; see :meth:`RowEnds.bind`."""
        place_rows(self._append, sentence, lengths, finished)
        self._rows = (sentence, lengths, finished)

    def begin(self, last: Tensor) -> None:
        """Let the next tokens be these, int64 ``[R]``."""
        if self._append.n_rows == 1:
            self._next_on_host[0] = int(last)
        else:
            self.next_tokens[: last.numel()] = last

    def take_chains(self, n_new: int) -> None:
        """Let the blocks be chains of the next tokens and ``n_new - 1`` proposals behind each."""
        self._append.n_new = self.n_new = n_new
        self.structure.parents = None

    def lead(self) -> None:
        """Write down the chains' tokens."""
        problems.check(self._library.lead(self._address))

    def grow(self, scores: np.ndarray, ranked: np.ndarray, n_proposals: int) -> None:
        """Make trees of the most probable paths, with the next tokens as their roots.

        Smaller trees than the largest get padding, which nothing accepts, behind their roots.

        Args:
            scores: float32 ``[R, heads, n]``, log-probabilities of each head's best tokens, best
                first; a path's is their sum.
            ranked: int64 ``[R, heads, n]``, those tokens.
            n_proposals: how many tokens there are to be besides the root, if there are so many.

        Raises:
            ValueError: for numbers of other kinds.
        """
        trees, rows = self._trees, self._append
        trees.n_rows, trees.n_heads, trees.n_best = scores.shape
        numbers, tokens = torch.from_numpy(scores), torch.from_numpy(ranked)
        trees.scores = problems.address(numbers, scores.size, "scores", torch.float32)
        trees.ranked = problems.address(tokens, scores.size, "tokens")
        if trees.n_rows != rows.n_rows:
            raise ValueError(f"scores {list(scores.shape)} for {rows.n_rows} rows")
        self._expect_trees(n_proposals)
        longest = self._library.grow_trees(ctypes.byref(trees))
        problems.check(-min(longest, 0))
        self.take_trees(longest)

    def grow_by(
        self,
        heads: HeadTrees,
        n_proposals: int,
        no_end: Optional[Tensor] = None,
        has_to_end: Optional[Tensor] = None,
    ) -> None:
        """:meth:`grow` trees of what heads find most probable after the rows' :attr:`states`.

        Args:
            no_end, has_to_end: as for :meth:`HeadTrees.grow`.
        """
        self._expect_trees(n_proposals)
        n_rows = self._append.n_rows
        self.take_trees(heads.grow(self.structure.states, n_rows, self._trees, no_end, has_to_end))

    def _expect_trees(self, n_proposals: int) -> None:
        if not 0 <= n_proposals < self._most_new:
            raise ValueError(f"{n_proposals} proposals in blocks of {self._most_new} tokens")
        self._trees.n_proposals, self._trees.eos = n_proposals, self._append.eos

    def plant(self, tokens: Tensor, parents: Tensor, depths: Tensor, path_scores: Tensor) -> None:
        """Make trees that are ready, with the next tokens as their roots.

        Args:
            tokens, parents, depths: int64 ``[R, T]``, padded as by :meth:`grow`.
            path_scores: ``[R, T]``.

        Raises:
            ValueError: for trees of other rows, or larger ones than there is memory for.
        """
        rows = self._append
        n_rows, n_new = tokens.shape
        if n_rows != rows.n_rows or n_new > self._most_new:
            raise ValueError(f"trees {list(tokens.shape)} for {rows.n_rows} rows")
        parts = (self.tokens, self.parents, self.depths, self.path_scores)
        for part, given in zip(parts, (tokens, parents, depths, path_scores)):
            part[: given.numel()] = given.flatten()
        self.take_trees(n_new)

    def place_trees(self, trees: structures.DraftTrees) -> None:
        """Say where trees go, whose roots are the next tokens.

        Raises:
            ValueError: for larger trees than there is memory for.
        """
        if trees.n_proposals >= self._most_new:
            raise ValueError(f"trees of {trees.n_proposals} in blocks of {self._most_new}")
        trees.pad, trees.roots = self._trees.pad, self._trees.roots
        trees.tokens, trees.parents = self._trees.tokens, self._trees.parents
        trees.depths, trees.path_scores = self._trees.depths, self._trees.path_scores

    def take_trees(self, n_new: int) -> None:
        """Make the trees that were written there the blocks, of so many tokens each."""
        self._append.n_new = self.n_new = n_new
        self.structure.parents = self._address_of_parents

    def accept(self, verdict: Optional[Tensor] = None) -> None:
        """Count the tokens of each block that are accepted, or find their path in a tree.

        Args:
            verdict: bool ``[R, T - 1]``, whether each proposal of a chain is good enough (default:
                if it is the answer to the token before it).
        """
        task = self.structure
        task.verdict = task.own_scores = None
        if verdict is not None:
            n = task.rows.n_rows * (self.n_new - 1)
            task.verdict = problems.address(verdict, n, "verdict", torch.bool)
        problems.check(self._library.accept(self._address))

    def keep(self, own_scores: Optional[Tensor] = None, n_known: int = 0) -> int:
        """Extend the rows by what was accepted, up to and including the first EOS.

        What follows their last accepted token becomes their next token.

        Args:
            own_scores: float32 ``[R, T - 1]``, of the proposals (default: those of the answers).
            n_known: 1 if the rows have their blocks' first tokens already.

        Returns:
            how many rows have ended.
        """
        task = self.structure
        if own_scores is not None:
            n = task.rows.n_rows * (self.n_new - 1)
            task.own_scores = problems.address(own_scores, n, "scores", torch.float32)
        task.n_known = n_known
        n_ended = self._library.keep(self._address)
        problems.check(-min(n_ended, 0))
        return n_ended

    def n_accepted(self) -> Union[int, Tensor]:
        """Count the tokens of each block that are accepted: one number, or int64 ``[R]``."""
        n_rows = self._append.n_rows
        return self._accepted_on_host[0] if n_rows == 1 else self.accepted[:n_rows]

    def n_taken(self) -> Union[int, Tensor]:
        """Count the tokens of its block that each row has got; as above, and the caller's own."""
        n_rows = self._append.n_rows
        return self._taken_on_host[0] if n_rows == 1 else self.taken[:n_rows].clone()

    def n_ended(self) -> Union[int, Tensor]:
        """Count the tokens that :meth:`end_rows` has added; as above, and the caller's own."""
        n_rows = self._append.n_rows
        return self._ended_on_host[0] if n_rows == 1 else self.ended[:n_rows].clone()

    def end_rows(self) -> int:
        """End the rows whose next token is EOS; returns how many have ended, now or before."""
        n_ended = self._library.end_rows(self._address)
        problems.check(-min(n_ended, 0))
        return n_ended

    def select(self, order: Tensor) -> None:
        """Row i becomes what row ``order[i]`` was, int64 ``[R']``."""
        n = order.numel()
        for known in (self.next_tokens, self.next_scores, self.states, self.rest, self.n_rest):
            known[:n] = known[order]
