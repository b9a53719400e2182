"""A beam search's table of the sentences under way, whose rows are used again."""

import math
from typing import Dict, List

import numpy as np

from .history import Ends

# What is kept of each final and each waiting hypothesis.
ENDS = ("scores", "lengths", "columns")


class Slots:
    """A row of every array here belongs to one sentence, until it is done and another comes.

    An *ended* candidate is kept as the entry of :class:`~.history.History` that its EOS follows.
    """

    def __init__(self, width: int) -> None:
        numbers = np.zeros(0, dtype=np.int64)
        table = np.zeros((0, width), dtype=np.int64)
        self.number = numbers  # which sentence it is
        self.length = numbers
        self.width = numbers  # how many entries of the beam are growing
        self.steps = numbers  # how often the beam was expanded,
        self.expansions = numbers  # and how many entries over all of them
        self.max_len = numbers
        self.n_forced = numbers  # how many of the first tokens are given
        self.n_waived = numbers  # how many of the first steps know no --min-len
        self.forced = table[:, :0]
        self.n_final = numbers
        self.best_final = numbers.astype(np.float32)
        self.final_scores = table.astype(np.float32)
        self.final_lengths = table
        self.final_columns = table
        self.n_waiting = numbers
        self.waiting_scores = table.astype(np.float32)
        self.waiting_lengths = table
        self.waiting_columns = table
        self.n_columns = width  # K
        self.version = 0  # another number whenever arrays have grown
        self._free: List[int] = []

    @property
    def n(self) -> int:
        """The number of slots, in use or free."""
        return self.length.size

    @property
    def arrays(self) -> Dict[str, np.ndarray]:
        """The arrays that compiled code reads, by their names in ``cpp/structures.h``."""
        same = ("steps", "expansions", "n_final", "n_waiting", "best_final")
        ends = (f"{kind}_{part}" for kind in ("final", "waiting") for part in ENDS)
        own = {name: getattr(self, name) for name in (*same, *ends)}
        return {"lengths": self.length, "widths": self.width, **own}

    def take(self, n: int, prefix: np.ndarray) -> np.ndarray:
        """Take slots for n new sentences with a prefix ``[n, P]``; make more if need be."""
        wider = prefix.shape[1] - self.forced.shape[1]
        if wider > 0:
            self.forced = np.pad(self.forced, ((0, 0), (0, wider)))
        if len(self._free) < n:
            self._grow(max(n, self.n))
        slots, self._free = np.array(self._free[:n]), self._free[n:]
        for name in ("length", "n_final", "n_waiting", "steps", "expansions"):
            getattr(self, name)[slots] = 0
        self.width[slots] = 1
        self.best_final[slots] = -math.inf
        self.waiting_scores[slots] = -math.inf
        self.forced[slots, : prefix.shape[1]] = prefix
        return slots

    def give_back(self, slots: np.ndarray) -> None:
        """Free the slots of sentences that are done."""
        self._free.extend(slots.tolist())

    def finish(
        self,
        slots: np.ndarray,
        final: np.ndarray,
        scores: np.ndarray,
        lengths: np.ndarray,
        columns: np.ndarray,
    ) -> None:
        """Add the candidates ``[S, C]`` of slots ``[S]`` that ``final`` marks to the results."""
        sentence, choice = final.nonzero()
        place = self.n_final[slots][:, None] + final.cumsum(axis=1) - 1
        where = (slots[sentence], place[sentence, choice])
        self.final_scores[where] = scores[sentence, choice]
        self.final_lengths[where] = lengths[sentence, choice]
        self.final_columns[where] = columns[sentence, choice]
        self.n_final[slots] += final.sum(axis=1)
        best = np.where(final, scores, np.float32(-math.inf)).max(axis=1)
        self.best_final[slots] = np.maximum(self.best_final[slots], best)

    def set_waiting(
        self,
        slots: np.ndarray,
        waiting: np.ndarray,
        scores: np.ndarray,
        lengths: np.ndarray,
        columns: np.ndarray,
    ) -> None:
        """Let the candidates ``[S, C]`` that ``waiting`` marks wait, and no others."""
        n = scores.shape[1]
        self.n_waiting[slots] = waiting.sum(axis=1)
        self.waiting_scores[slots] = -math.inf
        self.waiting_scores[slots, :n] = np.where(waiting, scores, np.float32(-math.inf))
        self.waiting_lengths[slots, :n] = lengths
        self.waiting_columns[slots, :n] = columns

    def end_as_they_stand(self, slots: np.ndarray) -> None:
        """End sentences for which the model knows no next token (NaN) where they stand."""
        self.n_final[slots] = 1
        self.final_scores[slots, 0] = -math.inf
        self.final_lengths[slots, 0] = self.length[slots]
        self.final_columns[slots, 0] = 0

    def ends(self, slots: np.ndarray) -> Ends:
        """The final hypotheses of some sentences, in the order of the sentences."""
        there = np.arange(self.final_scores.shape[1]) < self.n_final[slots][:, None]
        sentence, place = there.nonzero()
        slots = slots[sentence]
        return Ends(
            slots,
            self.final_lengths[slots, place],
            self.final_columns[slots, place],
            self.final_scores[slots, place],
        )

    def _grow(self, n: int) -> None:
        first = self.n
        self.version += 1
        for name, old in vars(self).items():
            if isinstance(old, np.ndarray):
                more = np.zeros((n, *old.shape[1:]), dtype=old.dtype)
                setattr(self, name, np.concatenate([old, more]))
        self._free.extend(range(first, first + n))
