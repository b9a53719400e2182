"""Candidates are judged: they are final, wait, grow or are forgotten.

In numpy, and in two calls of compiled code with the same results, which write into the same arrays.
"""

from typing import Optional

import numpy as np

from ...engine import inheritance
from ...engine.kernels.beams import BeamTable
from ..top_tokens import Best
from .candidates import Candidates
from .finalization import Finalization
from .focus import Focus
from .history import History
from .slots import Slots


class Survival:
    """Judges the candidates of the beams in focus, and lets the beams grow."""

    def __init__(
        self,
        slots: Slots,
        history: History,
        focus: Focus,
        finalization: Finalization,
        threshold: float,
        eos: int,
    ) -> None:
        """
        Args:
            threshold: delta, in nats.
        """
        self._slots = slots
        self._history = history
        self._focus = focus
        self._finalization = finalization
        self._threshold = threshold
        self._eos = eos

    @classmethod
    def of(
        cls,
        slots: Slots,
        history: History,
        focus: Focus,
        finalization: Finalization,
        threshold: float,
        eos: int,
    ) -> "Survival":
        """The same by compiled code, where there is any."""
        table = BeamTable.of(slots.n_columns, eos, finalization.lets_wait, threshold)
        if table is None:
            return cls(slots, history, focus, finalization, threshold, eos)
        return CompiledSurvival(table, slots, history, focus)

    def judge(self, extensions: Best) -> Optional[np.ndarray]:
        """Finalize, keep or forget the candidates of the beams in focus.

        Returns:
            the beams whose sentences are done, bool ``[S]``; ``None`` if there are none.
        """
        known, slots = self._slots, self._focus.slots
        known.steps[slots] += 1
        known.expansions[slots] += known.width[slots]
        candidates = self._add_waiting(self._candidates(extensions))
        verdict = self._finalization.judge(
            candidates.scores,
            candidates.tokens == self._eos,
            known.n_final[slots],
            known.best_final[slots],
            known.n_columns,
            self._threshold,
        )
        ends = (candidates.scores, candidates.lengths, candidates.columns)
        if verdict.final.any():
            known.finish(slots, verdict.final, *ends)
        if self._finalization.lets_wait:
            known.set_waiting(slots, verdict.waiting, *ends)
        known.width[slots] = verdict.active.sum(axis=1)
        self._candidates_left, self._active = candidates, verdict.active
        done = (known.n_final[slots] >= known.n_columns) | (known.width[slots] == 0)
        return done if done.any() else None

    def extend(self, order: Optional[np.ndarray]) -> bool:
        """The beams become what grows of their candidates.

        Args:
            order: int64 ``[S']``, the beams that go on (default: all).

        Returns:
            whether rows have to move, to where the focus says.
        """
        candidates, active, focus = self._candidates_left, self._active, self._focus
        if order is not None:
            candidates = Candidates(*(field[order] for field in candidates))
            active = active[order]
            focus.keep(order)
        entry = active.nonzero()
        beam = entry[0]
        self._slots.length[focus.slots] += 1
        focus.set_lengths(self._slots)
        column = (active.cumsum(axis=1) - 1)[entry]
        slots = focus.slots[beam]
        self._history.reserve(self._slots.n, focus.longest)
        tokens, totals = candidates.tokens[entry], candidates.scores[entry]
        self._history.extend(
            slots, candidates.lengths[entry] + 1, column, tokens, candidates.columns[entry], totals
        )
        # The first child of a row takes that row over, so beams of one entry keep their rows until
        # a sentence leaves.
        parents, n_before = candidates.rows[entry], focus.n_rows
        places = inheritance(parents, n_before)
        focus.set_rows(slots[places], column[places], tokens[places], totals[places], beam[places])
        focus.arrays["origins"][: focus.n_rows] = parents[places]
        return not np.array_equal(parents[places], np.arange(n_before))

    def _candidates(self, extensions: Best) -> Candidates:
        length = self._slots.length[self._focus.slots]
        rows = extensions.rows
        return Candidates(
            extensions.scores,
            extensions.tokens,
            np.broadcast_to(length[:, None], rows.shape),
            # Where there is no extension, rows mean nothing.
            self._focus.columns[np.where(extensions.scores > -np.inf, rows, 0)],
            rows,
        )

    def _add_waiting(self, candidates: Candidates) -> Candidates:
        """The best of the candidates and of those that ended before and still wait."""
        slots, focus = self._slots, self._focus.slots
        if not slots.n_waiting[focus].any():
            return candidates
        lengths = slots.waiting_lengths[focus]
        waiting = Candidates(
            slots.waiting_scores[focus],
            np.full_like(lengths, self._eos),
            lengths,
            slots.waiting_columns[focus],
            np.zeros_like(lengths),
        )
        both = (np.concatenate(pair, axis=1) for pair in zip(candidates, waiting))
        return Candidates(*both).best(slots.n_columns)


class CompiledSurvival(Survival):
    """The same, by a call of compiled code for each of both."""

    def __init__(self, table: BeamTable, slots: Slots, history: History, focus: Focus) -> None:
        self._table = table
        self._slots = slots
        self._history = history
        self._focus = focus
        self._placed = (-1, -1, -1)
        self._extensions: Optional[Best] = None

    def judge(self, extensions: Best) -> Optional[np.ndarray]:
        """See :meth:`Survival.judge`."""
        focus = self._focus
        # Room for the children, too: extending must find everything where judging found it.
        self._history.reserve(self._slots.n, focus.longest + 1)
        self._place()
        if extensions is not self._extensions:
            self._table.place_candidates(*extensions)
            self._extensions = extensions
        n_done = self._table.judge(focus.n_beams, focus.n_rows)
        return self._table.done[: focus.n_beams].copy() if n_done else None

    def extend(self, order: Optional[np.ndarray]) -> bool:
        """See :meth:`Survival.extend`."""
        focus = self._focus
        n_rows, moves = self._table.extend(order)
        if order is not None:
            focus.keep(order)
        focus.set_n_rows(n_rows)
        focus.shortest, focus.longest = self._table.lengths
        return moves

    def _place(self) -> None:
        """Say where the arrays are, if some have grown."""
        slots, history, focus = self._slots, self._history, self._focus
        versions = (slots.version, history.version, focus.version)
        if versions == self._placed:
            return
        self._table.place(
            slots.n,
            history.n_lengths,
            focus.most_beams,
            **slots.arrays,
            **history.arrays,
            **focus.arrays,
        )
        self._placed = versions
