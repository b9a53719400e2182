"""Beam search over sentences that come and go, with beams of any width."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from torch import Tensor

from ...engine import EnsembleSession, at, compaction, inheritance
from ..constraints import GenerationRules, TokenConstraints
from ..statistics import Statistics
from ..top_tokens import Chooser
from .candidates import BeamRows, Candidates, Wanted, best_extensions
from .finalization import FINALIZATIONS
from .history import History
from .request import Result, Sentences
from .slots import Slots


@dataclass
class Heuristics:
    """The choice of candidates (Yang et al. 2020, section 4).

    Attributes:
        width: K, the entries of a beam.
        threshold: delta, in nats; infinite for no pruning.
        per_entry: M, the candidates from one entry; ``None`` for any number.
        finalize: the name of the rule for ended candidates, one of ``FINALIZATIONS``.
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

    All this is on the host. In a step the device is told the tokens and the order of the rows, and
    the host each row's best tokens.
    """

    def __init__(
        self,
        session: EnsembleSession,
        rules: GenerationRules,
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
        self._rules = rules
        self._chooser = Chooser(rules)
        self._statistics = statistics
        self._heuristics = heuristics
        self._finalization = FINALIZATIONS[heuristics.finalize]
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
        """The number of tokens of their entries, ``[S]``."""
        return self._slots.length[self._live]

    @property
    def widths(self) -> np.ndarray:
        """The number of growing entries of their beams, ``[S]``."""
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
        self._locate_focus()

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
        self._locate_focus()

    def step(self) -> List[Result]:
        """Expand the beams in focus by one token; returns the sentences that end with it."""
        slots = self._row_slot[self._n_resting_rows :]
        columns = self._row_column[self._n_resting_rows :]
        lengths = self._slots.length[slots]
        tokens = self._history.tokens(slots, lengths, columns)
        features = self._session.step(self._on_device(tokens)[:, None])
        self._session.commit(1)
        self._count_step(slots.size)
        n = self._heuristics.width * self._finalization.candidates_per_entry
        scores, normalized = self._session.scores(at(features, 0))
        found = best_extensions(
            self._chooser,
            scores,
            self._history.scores(slots, lengths, columns),
            BeamRows(
                self._beam, columns, self._focus.size, int(self._slots.width[self._focus].max())
            ),
            Wanted(n, self._heuristics.per_entry),
            self._constraints(slots, lengths),
            normalize=not normalized,
        )
        candidates = Candidates(
            found.scores,
            found.tokens,
            np.broadcast_to(self._slots.length[self._focus][:, None], found.rows.shape),
            columns[found.rows],
            found.rows,
        )
        return self._judge_candidates(self._add_waiting(candidates), slots.size)

    def _constraints(self, slots: np.ndarray, steps: np.ndarray) -> Optional[TokenConstraints]:
        """The constraints on the rows' next tokens by limits and a prefix; ``None`` if none."""
        known = self._slots
        now, max_len, n_forced = (
            values[self._focus] for values in (known.length, known.max_len, known.n_forced)
        )
        if self._rules.leaves_open(now, max_len, n_forced).all():
            return None
        constraints = self._rules.constraints_at(steps, known.max_len[slots], known.n_waived[slots])
        forced = (steps < known.n_forced[slots]).nonzero()[0]
        constraints.only[forced] = known.forced[slots[forced], steps[forced]]
        return constraints

    def _add_waiting(self, candidates: Candidates) -> Candidates:
        """The best of the candidates and of those that ended before and still wait."""
        slots = self._slots
        if not slots.n_waiting[self._focus].any():
            return candidates
        lengths = slots.waiting_lengths[self._focus]
        waiting = Candidates(
            slots.waiting_scores[self._focus],
            np.full_like(lengths, self._rules.eos),
            lengths,
            slots.waiting_columns[self._focus],
            np.zeros_like(lengths),
        )
        both = (np.concatenate(pair, axis=1) for pair in zip(candidates, waiting))
        return Candidates(*both).best(self._heuristics.width)

    def _judge_candidates(self, candidates: Candidates, n_rows: int) -> List[Result]:
        """Finalize, keep or forget the candidates; returns the sentences that are done."""
        known, slots = self._slots, self._focus
        verdict = self._finalization.judge(
            candidates.scores,
            candidates.tokens == self._rules.eos,
            known.n_final[slots],
            known.best_final[slots],
            self._heuristics.width,
            self._heuristics.threshold,
        )
        ends = (candidates.scores, candidates.lengths, candidates.columns)
        if verdict.final.any():
            known.finish(slots, verdict.final, *ends)
        if self._finalization.lets_wait:
            known.set_waiting(slots, verdict.waiting, *ends)
        active = verdict.active
        known.width[slots] = active.sum(axis=1)
        done = (known.n_final[slots] >= self._heuristics.width) | (known.width[slots] == 0)
        results: List[Result] = []
        if done.any():
            results = self._results(slots[done])
            # In the order in which the session's sources close the gaps.
            order = compaction(torch.from_numpy(~done)).numpy()
            known.give_back(slots[done])
            candidates = Candidates(*(field[order] for field in candidates))
            active, self._focus = active[order], slots[order]
            self._live = np.concatenate([self._live[: self._n_resting], self._focus])
        self._extend_beams(candidates, active, n_rows)
        return results

    def _extend_beams(self, candidates: Candidates, active: np.ndarray, n_rows: int) -> None:
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
        self._assign_rows(candidates.rows[entry], n_rows, beam, slots, column)

    def _assign_rows(
        self,
        parents: np.ndarray,
        n_rows: int,
        beam: np.ndarray,
        slots: np.ndarray,
        column: np.ndarray,
    ) -> None:
        """Give rows to new entries ``[R]``, which continue the rows ``parents``."""
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
        known = self._slots
        known.end_as_they_stand(slots[known.n_final[slots] == 0])
        ends = known.ends(slots)
        hypotheses = iter(self._history.hypotheses(ends, self._rules, self._device))
        results = []
        for slot in slots.tolist():
            own = sorted(islice(hypotheses, int(known.n_final[slot])), key=_score, reverse=True)
            costs = (int(values[slot]) for values in (known.steps, known.expansions))
            results.append(Result(int(known.number[slot]), own, *costs))
        return results

    def _count_step(self, n_rows: int) -> None:
        self._statistics.count_step(n_rows)
        self._statistics.count_beams(self._focus.size)
        self._slots.steps[self._focus] += 1
        self._slots.expansions[self._focus] += self._slots.width[self._focus]

    def _locate_focus(self) -> None:
        """Note which beams are in focus, and to which of them each row belongs."""
        self._focus = self._live[self._n_resting :]
        position = np.zeros(self._slots.n, dtype=np.int64)
        position[self._focus] = np.arange(self._focus.size)
        self._beam = position[self._row_slot[self._n_resting_rows :]]

    def _on_device(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(self._device)


def _score(hypothesis: Dict[str, Any]) -> float:
    return hypothesis["score"].item()
