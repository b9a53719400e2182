"""Beams between two steps of a search: judged, grown and followed back, by compiled code."""

import ctypes
from typing import Dict, Optional, Tuple

import numpy as np
import torch

from . import loading, problems, structures
from .loading import Library

INT = np.dtype(np.int64)
SHORT = np.dtype(np.int32)
FLOAT = np.dtype(np.float32)
FLAG = np.dtype(np.bool_)

# The dtypes of the arrays that are no int64.
DTYPES = {
    **dict.fromkeys(("best_final", "final_scores", "waiting_scores", "scores", "totals"), FLOAT),
    **dict.fromkeys(("tokens", "parents"), SHORT),
    **dict.fromkeys(("candidate_scores", "child_scores"), FLOAT),
    "done": FLAG,
}
HISTORY = ("history_tokens", "history_parents", "history_scores")
TRACE_DTYPES = dict(zip((*HISTORY, "totals", "scores"), (SHORT, SHORT, FLOAT, FLOAT, FLOAT)))


class BeamTable:
    """The beams of a search, whose arrays compiled code reads and writes where they are.

    :meth:`place` says where they are: again when a search has made more room. For one thread at a
    time. ``cpp/structures.h`` says what the arrays are.
    """

    def __init__(
        self, library: Library, width: int, eos: int, lets_wait: bool, threshold: float
    ) -> None:
        """
        Args:
            width: K.
            lets_wait: whether candidates that ended can wait, as the rule "paper" has it; without,
                the rule is "fairseq".
            threshold: delta.
        """
        self._library = library
        self._table = structures.BeamTable(
            width=width, eos=eos, lets_wait=lets_wait, threshold=threshold
        )
        self._address = ctypes.byref(self._table)
        self._arrays: Dict[str, np.ndarray] = {}
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._n_judged = 0
        self.done = np.zeros(0, dtype=bool)

    @classmethod
    def of(cls, width: int, eos: int, lets_wait: bool, threshold: float) -> Optional["BeamTable"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, width, eos, lets_wait, threshold)

    @property
    def lengths(self) -> Tuple[int, int]:
        """The shortest and the longest entries in focus, since :meth:`extend`."""
        return self._table.shortest, self._table.longest

    def place(self, n_slots: int, n_lengths: int, most_beams: int, **arrays: np.ndarray) -> None:
        """Note where arrays are, by their names in the structure.

        Args:
            n_slots, n_lengths, most_beams: the sizes of these arrays.

        Raises:
            ValueError: for an array of another dtype, or that does not lie side by side.
        """
        table = self._table
        table.n_slots, table.n_lengths = n_slots, n_lengths
        for name, array in arrays.items():
            self._place(name, array)
        if most_beams != table.most_beams:
            most = most_beams * table.width
            self._place("child_scores", np.zeros(most, dtype=FLOAT))
            for name in ("child_tokens", "child_columns", "child_rows"):
                self._place(name, np.zeros(most, dtype=INT))
            self.done = np.zeros(most_beams, dtype=FLAG)
            self._place("done", self.done)
        table.most_beams = most_beams

    def place_candidates(self, scores: np.ndarray, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Note where the candidates ``[S, C]`` are, best first."""
        self._place("candidate_scores", scores)
        self._place("candidate_rows", rows)
        self._place("candidate_tokens", tokens)
        if not scores.shape == rows.shape == tokens.shape:
            raise ValueError(f"candidates: {scores.shape}, {rows.shape}, {tokens.shape}")
        self._n_judged, self._table.n_candidates = scores.shape

    def _place(self, name: str, array: np.ndarray) -> None:
        _check(name, array, DTYPES.get(name, INT))
        self._arrays[name] = array
        setattr(self._table, name, _address(array))

    def judge(self, n_beams: int, n_rows: int) -> int:
        """Judge the candidates of the beams in focus; returns how many :attr:`done` marks.

        Raises:
            IndexError: for candidates of rows that are not there, and numbers in the arrays that
                lead outside of them.
            ValueError: for candidates of more or fewer beams, and more of these or of rows than
                there is room for.
        """
        table = self._table
        if n_beams != self._n_judged:
            raise ValueError(f"candidates of {self._n_judged} beams, where there are {n_beams}")
        table.n_beams, table.n_rows = n_beams, n_rows
        self._reserve_scratch()
        return self._checked(self._library.judge_beams(self._address))

    def extend(self, order: Optional[np.ndarray]) -> Tuple[int, bool]:
        """Beams become what grows of their candidates.

        Args:
            order: int64 ``[S']``, the beams that go on (default: all).

        Returns:
            the number of rows, and whether a row becomes what another was.

        Raises:
            IndexError, ValueError: as :meth:`judge`, and for lengths beyond the arrays.
        """
        table = self._table
        if order is None:
            table.order, table.n_kept = None, table.n_beams
        else:
            self._place("order", order)
            table.n_kept = order.size
        moves = self._checked(self._library.extend_beams(self._address))
        return table.n_rows, bool(moves)

    def _reserve_scratch(self) -> None:
        table = self._table
        needed = self._library.beam_scratch_size(self._address)
        if needed > table.scratch_size:
            self._scratch = torch.empty(2 * needed, dtype=torch.uint8)
            table.scratch, table.scratch_size = self._scratch.data_ptr(), 2 * needed

    @staticmethod
    def _checked(result: int) -> int:
        problems.check(-min(result, 0))
        return result


class Tracer:
    """Follows hypotheses back to their first token. Several threads may call it at once."""

    def __init__(self, library: Library) -> None:
        self._library = library

    @classmethod
    def of(cls) -> Optional["Tracer"]:
        """``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library)

    def __call__(
        self,
        history: Tuple[np.ndarray, np.ndarray, np.ndarray],
        ends: Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        eos: int,
    ) -> Tuple[np.ndarray, np.ndarray]:
        """
        Args:
            history: tokens and parents int32 and scores float32, ``[slots, length, width]``.
            ends: slots, lengths and columns int64 and totals float32, ``[H]``.

        Returns:
            tokens int64 and their own scores float32, ``[N]``: one hypothesis behind the other,
            each with EOS.

        Raises:
            IndexError: for entries that are not there.
            ValueError: for arrays of other dtypes.
        """
        slots, lengths, columns, totals = ends
        n_tokens = int(lengths.sum()) + lengths.size
        tokens, scores = np.empty(n_tokens, dtype=INT), np.empty(n_tokens, dtype=FLOAT)
        n_slots, n_lengths, width = history[0].shape
        arrays = dict(zip(HISTORY, history), slots=slots, lengths=lengths, columns=columns)
        arrays.update(totals=totals, tokens=tokens, scores=scores)
        for name, array in arrays.items():
            _check(name, array, TRACE_DTYPES.get(name, INT))
        task = structures.Trace(
            n_slots=n_slots,
            n_lengths=n_lengths,
            width=width,
            eos=eos,
            n=slots.size,
            n_tokens=n_tokens,
            **{name: _address(array) for name, array in arrays.items()},
        )
        problems.check(self._library.trace(ctypes.byref(task)))
        return tokens, scores


def _address(array: np.ndarray) -> int:
    # array.ctypes would make an object first.
    return array.__array_interface__["data"][0]


def _check(name: str, array: np.ndarray, dtype: np.dtype) -> None:
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: {array.dtype} {array.shape}, where compiled code reads {dtype} side by side"
        )
