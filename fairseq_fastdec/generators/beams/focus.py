"""The beams that a step expands, and their rows of the session."""

from typing import Dict

import numpy as np
import torch
from torch import Tensor

from ..top_tokens import Beams
from .history import History
from .slots import Slots


class Focus:
    """S beams and their R rows: each row is a growing entry of one of the beams.

    Where a row lies says nothing: it knows its slot (which sentence) and its column (which entry of
    the beam). So when a beam changes, an entry that goes on stays where it is.

    The arrays keep their memory from step to step, and may be longer than what is in use.

    Attributes:
        n_beams, n_rows: S and R.
        beams: the rows of each beam by their columns, with their scores so far.
        arrays: all of these by the names of ``cpp/structures.h``'s BeamTable.
        shortest, longest: the least and the greatest length of the beams.
        version: another number whenever the arrays are others.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._most = 0
        self.version = 0
        self.n_beams = self.n_rows = 0
        self.shortest = self.longest = 0
        self._reserve(1)

    @property
    def slots(self) -> np.ndarray:
        """The slot of each beam, int64 ``[S]``."""
        return self.arrays["focus"][: self.n_beams]

    @property
    def row_slots(self) -> np.ndarray:
        """The slot of each row, int64 ``[R]``."""
        return self.arrays["row_slots"][: self.n_rows]

    @property
    def columns(self) -> np.ndarray:
        """The column of each row, int64 ``[R]``."""
        return self.arrays["columns"][: self.n_rows]

    @property
    def most_beams(self) -> int:
        """The number of beams that there is room for."""
        return self._most

    def begin(
        self,
        slots: np.ndarray,
        row_slots: np.ndarray,
        columns: np.ndarray,
        known: Slots,
        history: History,
    ) -> None:
        """Expand these beams, int64 ``[S]``, from now on, with these rows, int64 ``[R]`` each."""
        self._reserve(slots.size)
        self.arrays["focus"][: slots.size] = slots
        self.n_beams = slots.size
        lengths = known.length[row_slots]
        position = np.zeros(known.n, dtype=np.int64)
        position[slots] = np.arange(slots.size)
        self.set_rows(
            row_slots,
            columns,
            history.tokens(row_slots, lengths, columns),
            history.scores(row_slots, lengths, columns),
            position[row_slots],
        )
        self.set_lengths(known)

    def set_rows(
        self,
        row_slots: np.ndarray,
        columns: np.ndarray,
        tokens: np.ndarray,
        totals: np.ndarray,
        beam: np.ndarray,
    ) -> None:
        """The rows are now these ``[R]``.

        Args:
            tokens, totals: of the entries.
            beam: to which beam each row belongs, from 0 to S.
        """
        self.set_n_rows(row_slots.size)
        arrays, n_rows = self.arrays, self.n_rows
        arrays["row_slots"][:n_rows] = row_slots
        arrays["columns"][:n_rows] = columns
        arrays["next_tokens"][:n_rows] = tokens
        arrays["totals"][:n_rows] = totals
        arrays["rows"][:n_rows] = np.lexsort((columns, beam))
        arrays["starts"][0] = 0
        counts = np.bincount(beam, minlength=self.n_beams)
        counts.cumsum(out=arrays["starts"][1 : self.n_beams + 1])

    def set_n_rows(self, n_rows: int) -> None:
        """The number of rows is another, and the arrays know them already."""
        self.n_rows = self.beams.n_rows = n_rows
        self.beams.n_beams = self.n_beams

    def keep(self, order: np.ndarray) -> None:
        """Keep these of the beams, in this order, int64 ``[S']``; rows are set later."""
        slots = self.slots[order]
        self.arrays["focus"][: slots.size] = slots
        self.n_beams = slots.size

    def set_lengths(self, known: Slots) -> None:
        """Look up how long the beams are."""
        lengths = known.length[self.slots]
        self.shortest, self.longest = (lengths.min(), lengths.max()) if lengths.size else (0, 0)

    @property
    def tokens(self) -> Tensor:
        """The tokens that the rows are fed next, int64 ``[R, 1]``; valid until the rows change."""
        if self.n_rows not in self._tokens:
            self._tokens[self.n_rows] = self._all_tokens[: self.n_rows, None]
        return self._tokens[self.n_rows]

    def origins_on(self, device: torch.device) -> Tensor:
        """The row that each row was before it moved, int64 ``[R]``."""
        return self._origins[: self.n_rows].to(device)

    def _reserve(self, n_beams: int) -> None:
        """Make room for so many beams; what the arrays held is lost."""
        if n_beams <= self._most:
            return
        self._most = max(n_beams, 2 * self._most)
        n_rows = self._most * self._width
        self.arrays: Dict[str, np.ndarray] = {
            "focus": np.zeros(self._most, dtype=np.int64),
            "starts": np.zeros(self._most + 1, dtype=np.int64),
            "totals": np.zeros(n_rows, dtype=np.float32),
        }
        for name in ("row_slots", "columns", "next_tokens", "rows", "origins"):
            self.arrays[name] = np.zeros(n_rows, dtype=np.int64)
        self.beams = Beams(*(self.arrays[name] for name in ("rows", "starts", "totals")))
        self._all_tokens, self._origins = (
            torch.from_numpy(self.arrays[name]) for name in ("next_tokens", "origins")
        )
        self._tokens: Dict[int, Tensor] = {}
        self.version += 1
