"""Beam search over sentences that come and go, with beams of any width."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from torch import Tensor

from ...engine import EnsembleSession, at, compaction, inheritance
from ..constraints import Limits
from ..statistics import Statistics
from ..top_tokens import Chooser, Demands
from .candidates import Candidates, Rows, Wanted, extensions
from .finalization import RULES
from .history import History
from .request import Result, Sentences
from .slots import Slots


@dataclass
class Heuristics:
    """How candidates are chosen (Yang et al. 2020, section 4).

    Attributes:
        width: K, the entries of a beam.
        threshold: delta, in nats; infinite for no pruning.
        per_entry: M, the candidates from one entry; ``None`` for any number.
        finalize: the name of the rule for ended candidates.
    """

    width: int
    threshold: float
    per_entry: Optional[int]
    finalize: str


class BeamSearch:
    """The sentences under way. Each step expands those in *focus*; the others rest.

    The rows of the session are the growing entries of all beams; the rows in focus are the last
    ones. Where a row lies says nothing: it knows its slot (which sentence) and its column (which
    entry of the beam). So when a beam changes, an entry that goes on stays where it is.

    All this is on the host. Of a step, the device sees the tokens and the order of the rows, and
    the host each row's best tokens.
    """

    def __init__(
        self,
        session: EnsembleSession,
        limits: Limits,
        statistics: Statistics,
        heuristics: Heuristics,
        device: torch.device,
    ) -> None:
        """
        Args:
            session: reset, with no rows.
            device: the session's.
        """
        self._session = session
        self._limits = limits
        self._choose = Chooser(limits)
        self._statistics = statistics
        self._heuristics = heuristics
        self._rule = RULES[heuristics.finalize]
        self._device = device
        self._slots = Slots(heuristics.width)
        self._history = History(heuristics.width)
        self._row_slot = np.zeros(0, dtype=np.int64)
        self._row_column = self._row_slot
        # The slots in use, in the order of their rows. Those in focus are the last ones.
        self._live = np.zeros(0, dtype=np.int64)
        self._n_resting = 0
        self._n_resting_rows = 0

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the sentences under way, ``[S]``."""
        return self._slots.number[self._live]

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens their entries have, ``[S]``."""
        return self._slots.length[self._live]

    @property
    def widths(self) -> np.ndarray:
        """How many entries of their beams are growing, ``[S]``."""
        return self._slots.width[self._live]

    def admit(self, new: Sentences, bos: int) -> None:
        """Encode more sentences; each begins with one entry, ``bos``, in focus."""
        slots = self._slots.take(len(new.numbers), new.prefix.cpu().numpy())
        self._slots.number[slots] = new.numbers
        for name in ("max_len", "n_forced", "n_waived"):
            getattr(self._slots, name)[slots] = getattr(new, name).cpu().numpy()
        self._history.reserve(self._slots.n, 1)
        self._history.begin(slots, bos)
        self._session.add(new.net_input, new.prefix)
        self._statistics.encoder_invocations += 1
        self._row_slot = np.concatenate([self._row_slot, slots])
        self._row_column = np.concatenate([self._row_column, np.zeros_like(slots)])
        self._live = np.concatenate([self._live, slots])
        self._look()

    def focus(self, chosen: np.ndarray) -> None:
        """Expand the ``chosen`` sentences from now on: bool ``[S]``, at least one."""
        in_focus = np.arange(chosen.size) >= self._n_resting
        if np.array_equal(chosen, in_focus):
            return
        slot_chosen = np.zeros(self._slots.n, dtype=bool)
        slot_chosen[self._live[chosen]] = True
        row_chosen = slot_chosen[self._row_slot]
        order = row_chosen.argsort(kind="stable")
        if (np.diff(order) < 0).any():
            self._session.pause(0)
            self._session.select(self._on_device(order))
            self._row_slot, self._row_column = self._row_slot[order], self._row_column[order]
        self._live = np.concatenate([self._live[~chosen], self._live[chosen]])
        self._n_resting = int((~chosen).sum())
        self._n_resting_rows = int(self.widths[: self._n_resting].sum())
        self._session.pause(self._n_resting_rows)
        self._look()

    def step(self) -> List[Result]:
        """Expand the beams in focus by one token; returns the sentences that end with it."""
        slots = self._row_slot[self._n_resting_rows :]
        columns = self._row_column[self._n_resting_rows :]
        lengths = self._slots.length[slots]
        tokens = self._history.tokens(slots, lengths, columns)
        features = self._session.step(self._on_device(tokens)[:, None])
        self._session.commit(1)
        self._count(slots.size)
        n = self._heuristics.width * self._rule.candidates_per_entry
        scores, normalized = self._session.scores(at(features, 0))
        found = extensions(
            self._choose,
            scores,
            self._history.scores(slots, lengths, columns),
            Rows(self._beam, columns, self._focus.size, int(self._slots.width[self._focus].max())),
            Wanted(n, self._heuristics.per_entry),
            self._demands(slots, lengths),
            normalize=not normalized,
        )
        candidates = Candidates(
            found.scores,
            found.tokens,
            np.broadcast_to(self._slots.length[self._focus][:, None], found.rows.shape),
            columns[found.rows],
            found.rows,
        )
        return self._keep(self._with_those_that_wait(candidates), slots.size)

    def _demands(self, slots: np.ndarray, steps: np.ndarray) -> Optional[Demands]:
        """What a prefix, --min-len and the longest length ask of the rows' next tokens, if any."""
        of = self._slots
        now = of.length[self._focus]
        free = np.maximum(of.n_forced[self._focus], self._limits.min_len)
        if ((now >= free) & (now < of.max_len[self._focus])).all():
            return None
        demands = Demands.of(self._limits, steps, of.max_len[slots], of.n_waived[slots])
        forced = (steps < of.n_forced[slots]).nonzero()[0]
        demands.only[forced] = of.forced[slots[forced], steps[forced]]
        return demands

    def _with_those_that_wait(self, candidates: Candidates) -> Candidates:
        slots = self._slots
        if not slots.n_waiting[self._focus].any():
            return candidates
        lengths = slots.waiting_lengths[self._focus]
        waiting = Candidates(
            slots.waiting_scores[self._focus],
            np.full_like(lengths, self._limits.eos),
            lengths,
            slots.waiting_columns[self._focus],
            np.zeros_like(lengths),
        )
        both = (np.concatenate(pair, axis=1) for pair in zip(candidates, waiting))
        return Candidates(*both).best(self._heuristics.width)

    def _keep(self, candidates: Candidates, n_rows: int) -> List[Result]:
        """Let the rule judge the candidates, and the beams be what it leaves of them."""
        of, slots = self._slots, self._focus
        verdict = self._rule.judge(
            candidates.scores,
            candidates.tokens == self._limits.eos,
            of.n_final[slots],
            of.best_final[slots],
            self._heuristics.width,
            self._heuristics.threshold,
        )
        ends = (candidates.scores, candidates.lengths, candidates.columns)
        if verdict.final.any():
            of.finish(slots, verdict.final, *ends)
        if self._rule.lets_wait:
            of.wait(slots, verdict.waiting, *ends)
        active = verdict.active
        of.width[slots] = active.sum(axis=1)
        done = (of.n_final[slots] >= self._heuristics.width) | (of.width[slots] == 0)
        results: List[Result] = []
        if done.any():
            results = self._results(slots[done])
            # In the order in which the session's sources close the gaps.
            order = compaction(torch.from_numpy(~done)).numpy()
            of.give_back(slots[done])
            candidates = Candidates(*(field[order] for field in candidates))
            active, self._focus = active[order], slots[order]
            self._live = np.concatenate([self._live[: self._n_resting], self._focus])
        self._extend(candidates, active, n_rows)
        return results

    def _extend(self, candidates: Candidates, active: np.ndarray, n_rows: int) -> None:
        """The beams become their ``active`` candidates, bool ``[S, C]``."""
        entry = active.nonzero()
        beam = entry[0]
        self._slots.length[self._focus] += 1
        column = (active.cumsum(axis=1) - 1)[entry]
        slots = self._focus[beam]
        self._history.reserve(self._slots.n, int(self._slots.length.max()))
        self._history.extend(
            slots,
            candidates.lengths[entry] + 1,
            column,
            candidates.tokens[entry],
            candidates.columns[entry],
            candidates.scores[entry],
        )
        self._settle(candidates.rows[entry], n_rows, beam, slots, column)

    def _settle(
        self,
        parents: np.ndarray,
        n_rows: int,
        beam: np.ndarray,
        slots: np.ndarray,
        column: np.ndarray,
    ) -> None:
        """Rows for new entries ``[R]``, which continue the rows ``parents``."""
        # Beams of one entry keep their rows until a sentence leaves.
        if not np.array_equal(parents, np.arange(n_rows)):
            places = inheritance(parents, n_rows)
            beam, slots, column = beam[places], slots[places], column[places]
            self._session.select(self._on_device(parents[places]))
        resting = self._n_resting_rows
        self._row_slot = np.concatenate([self._row_slot[:resting], slots])
        self._row_column = np.concatenate([self._row_column[:resting], column])
        self._beam = beam

    def _results(self, slots: np.ndarray) -> List[Result]:
        """The hypotheses of the sentences in the ``slots``, which are done."""
        of = self._slots
        of.give_up(slots[of.n_final[slots] == 0])
        ends = of.ends(slots)
        hypotheses = iter(self._history.hypotheses(ends, self._limits, self._device))
        results = []
        for slot in slots.tolist():
            own = sorted(islice(hypotheses, int(of.n_final[slot])), key=_score, reverse=True)
            known = (int(values[slot]) for values in (of.steps, of.expansions))
            results.append(Result(int(of.number[slot]), own, *known))
        return results

    def _count(self, n_rows: int) -> None:
        self._statistics.count_step(n_rows)
        self._statistics.count_beams(self._focus.size)
        self._slots.steps[self._focus] += 1
        self._slots.expansions[self._focus] += self._slots.width[self._focus]

    def _look(self) -> None:
        """Learn which beams are in focus, and to which of them each row belongs."""
        self._focus = self._live[self._n_resting :]
        position = np.zeros(self._slots.n, dtype=np.int64)
        position[self._focus] = np.arange(self._focus.size)
        self._beam = position[self._row_slot[self._n_resting_rows :]]

    def _on_device(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(self._device)


def _score(hypothesis: Dict[str, Any]) -> float:
    return hypothesis["score"].item()
