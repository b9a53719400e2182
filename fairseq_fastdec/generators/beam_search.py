"""Beam search over sentences that come and go, with beams of any width."""

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from torch import Tensor

from ..engine import EnsembleSession, compaction, inheritance
from ..engine.ensemble import Features
from .candidates import Candidates, Rows, best_extensions
from .finalization import RULES
from .history import History
from .limits import Limits
from .sentences import Result, Sentences
from .slots import Slots
from .statistics import Statistics

HOST_KNOWLEDGE = (
    "number", "length", "width", "waiting", "final", "steps", "expansions",
    # From which length on every token is possible, and from which on only EOS.
    "free", "max_len",
)  # fmt: skip


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
        """
        self._session = session
        self._limits = limits
        self._statistics = statistics
        self._heuristics = heuristics
        self._rule = RULES[heuristics.finalize]
        self._slots = Slots(heuristics.width, device)
        self._history = History(heuristics.width, device)
        self._row_slot = torch.zeros(0, dtype=torch.long, device=device)
        self._row_column = self._row_slot
        # The host's knowledge: of each slot,
        self._known = {name: np.zeros(0, dtype=np.int64) for name in HOST_KNOWLEDGE}
        # and the slots in use, in the order of their rows. Those in focus are the last ones.
        self._live = np.zeros(0, dtype=np.int64)
        self._n_resting = 0
        self._n_resting_rows = 0

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the sentences under way, ``[S]``."""
        return self._known["number"][self._live]

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens their entries have, ``[S]``."""
        return self._known["length"][self._live]

    @property
    def widths(self) -> np.ndarray:
        """How many entries of their beams are growing, ``[S]``."""
        return self._known["width"][self._live]

    def admit(self, new: Sentences, bos: int) -> None:
        """Encode more sentences; each begins with one entry, ``bos``, in focus."""
        n = len(new.numbers)
        slots = self._slots.take(n, new.prefix)
        device_slots = torch.tensor(slots, device=self._row_slot.device)
        self._slots.max_len[device_slots] = new.max_len
        self._slots.n_forced[device_slots] = new.n_forced
        self._slots.n_waived[device_slots] = new.n_waived
        self._slots.forced[device_slots, : new.prefix.size(1)] = new.prefix
        self._history.reserve(self._slots.n, 1)
        self._history.begin(device_slots, bos)
        self._session.add(new.net_input, new.prefix)
        self._statistics.encoder_invocations += 1
        self._row_slot = torch.cat([self._row_slot, device_slots])
        self._row_column = torch.cat([self._row_column, torch.zeros_like(device_slots)])
        for name, known in self._known.items():
            self._known[name] = np.resize(known, self._slots.n)
            self._known[name][slots] = 0
        self._known["number"][slots] = new.numbers
        self._known["width"][slots] = 1
        self._known["free"][slots] = new.n_forced.clamp(min=self._limits.min_len).cpu().numpy()
        self._known["max_len"][slots] = new.max_len.cpu().numpy()
        self._live = np.concatenate([self._live, np.array(slots, dtype=np.int64)])
        self._look()

    def focus(self, chosen: np.ndarray) -> None:
        """Expand the ``chosen`` sentences from now on: bool ``[S]``, at least one."""
        in_focus = np.arange(chosen.size) >= self._n_resting
        if np.array_equal(chosen, in_focus):
            return
        slot_chosen = torch.zeros(self._slots.n, dtype=torch.bool)
        slot_chosen[torch.from_numpy(self._live[chosen])] = True
        row_chosen = slot_chosen.to(self._row_slot.device)[self._row_slot]
        order = torch.cat([(~row_chosen).nonzero(), row_chosen.nonzero()]).squeeze(1)
        if bool((order[1:] < order[:-1]).any()):
            self._session.pause(0)
            self._session.select(order)
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
        features = self._session.step(tokens[:, None])
        self._session.commit(1)
        self._count(slots.numel())
        extensions = best_extensions(
            self._log_probs([member[:, 0] for member in features], slots, lengths),
            self._history.scores(slots, lengths, columns),
            Rows(self._beam, columns, self._focus.numel(), self._widest),
            self._heuristics.width * self._rule.candidates_per_entry,
            self._heuristics.per_entry,
        )
        candidates = Candidates(
            extensions.scores,
            extensions.tokens,
            self._slots.length[self._focus][:, None].expand_as(extensions.rows),
            columns[extensions.rows],
            extensions.rows,
        )
        return self._keep(self._with_those_that_wait(candidates), slots.numel())

    def _log_probs(self, features: Features, slots: Tensor, steps: Tensor) -> Tensor:
        """Constrained log-probabilities ``[R, V]`` of the rows' next tokens."""
        log_probs = self._session.log_probs(features)[..., 0, :]
        if self._is_free():
            return self._limits.penalize(log_probs)
        max_len, n_waived = self._slots.max_len[slots], self._slots.n_waived[slots]
        self._limits.constrain(log_probs, steps, max_len, n_waived)
        forced = (steps < self._slots.n_forced[slots]).nonzero().squeeze(1)
        if forced.numel():
            token = self._slots.forced[slots[forced], steps[forced]]
            kept = log_probs[forced, token]
            log_probs[forced] = -math.inf
            log_probs[forced, token] = kept
        return log_probs

    def _is_free(self) -> bool:
        """Whether no beam in focus is so short, or so long, that it cannot go on with any token."""
        in_focus = self._live[self._n_resting :]
        lengths = self._known["length"][in_focus]
        within = (lengths >= self._known["free"][in_focus]) & (
            lengths < self._known["max_len"][in_focus]
        )
        return bool(within.all())

    def _with_those_that_wait(self, candidates: Candidates) -> Candidates:
        if not self._known["waiting"][self._live[self._n_resting :]].any():
            return candidates
        lengths = self._slots.waiting_lengths[self._focus]
        waiting = Candidates(
            self._slots.waiting_scores[self._focus],
            torch.full_like(lengths, self._limits.eos),
            lengths,
            self._slots.waiting_columns[self._focus],
            torch.zeros_like(lengths),
        )
        both = (torch.cat(pair, dim=1) for pair in zip(candidates, waiting))
        return Candidates(*both).best(self._heuristics.width)

    def _keep(self, candidates: Candidates, n_rows: int) -> List[Result]:
        """Let the rule judge the candidates, and the beams be what it leaves of them."""
        slots = self._focus
        verdict = self._rule.judge(
            candidates.scores,
            candidates.tokens.eq(self._limits.eos),
            self._slots.n_final[slots],
            self._slots.best_final[slots],
            self._heuristics.width,
            self._heuristics.threshold,
        )
        counts = torch.stack(verdict).sum(dim=2).cpu().numpy()
        n_final, widths, n_waiting = counts
        in_focus = self._live[self._n_resting :]
        ends = (candidates.scores, candidates.lengths, candidates.columns)
        if n_final.any():
            self._slots.finish(slots, verdict.final, *ends)
        if n_waiting.any() or self._known["waiting"][in_focus].any():
            self._slots.wait(slots, verdict.waiting, *ends)
        self._known["final"][in_focus] += n_final
        self._known["waiting"][in_focus] = n_waiting
        done = (self._known["final"][in_focus] >= self._heuristics.width) | (widths == 0)
        self._known["width"][in_focus] = widths
        results: List[Result] = []
        active = verdict.active
        if done.any():
            results = self._results(in_focus[done])
            # In the order in which the session's sources close the gaps.
            order = compaction(torch.from_numpy(~done))
            self._leave(in_focus, done, order.numpy())
            order = order.to(active.device)
            candidates = Candidates(*(field[order] for field in candidates))
            active = active[order]
            self._focus = slots[order]
        self._extend(candidates, active, n_rows)
        return results

    def _extend(self, candidates: Candidates, active: Tensor, n_rows: int) -> None:
        """The beams become their ``active`` candidates, bool ``[S, C]``."""
        entry = active.nonzero(as_tuple=True)
        beam = entry[0]
        self._slots.length[self._focus] += 1
        self._known["length"][self._live[self._n_resting :]] += 1
        column = (active.cumsum(dim=1) - 1)[entry]
        slots = self._focus[beam]
        self._history.reserve(self._slots.n, int(self._known["length"].max()))
        self._history.extend(
            slots,
            candidates.lengths[entry] + 1,
            column,
            candidates.tokens[entry],
            candidates.columns[entry],
            candidates.scores[entry],
        )
        self._settle(candidates.rows[entry], n_rows, beam, slots, column)
        self._widest = int(self._known["width"][self._live[self._n_resting :]].max(initial=0))

    def _settle(
        self, parents: Tensor, n_rows: int, beam: Tensor, slots: Tensor, column: Tensor
    ) -> None:
        """Rows for new entries ``[R]``, which continue the rows ``parents``."""
        # Beams of one entry keep their rows until a sentence leaves.
        if not torch.equal(parents, torch.arange(n_rows, device=parents.device)):
            places = inheritance(parents, n_rows)
            beam, slots, column = beam[places], slots[places], column[places]
            self._session.select(parents[places])
        resting = self._n_resting_rows
        self._row_slot = torch.cat([self._row_slot[:resting], slots])
        self._row_column = torch.cat([self._row_column[:resting], column])
        self._beam = beam

    def _leave(self, in_focus: np.ndarray, done: np.ndarray, order: np.ndarray) -> None:
        """Make room for others where sentences in focus are ``done``; ``order`` has the rest."""
        self._slots.give_back(in_focus[done].tolist())
        self._live = np.concatenate([self._live[: self._n_resting], in_focus[order]])

    def _results(self, finished: np.ndarray) -> List[Result]:
        """The hypotheses of the sentences in the slots ``finished``."""
        slots = torch.from_numpy(finished).to(self._focus.device)
        counts = self._slots.n_final[slots]
        if bool(counts.eq(0).any()):
            self._slots.give_up(slots[counts.eq(0)])
        counts = self._slots.n_final[slots].tolist()
        hypotheses = iter(self._history.hypotheses(self._slots.ends(slots), self._limits))
        results = []
        for slot, count in zip(finished, counts):
            own = sorted(islice(hypotheses, count), key=_score, reverse=True)
            known = {name: int(values[slot]) for name, values in self._known.items()}
            results.append(Result(known["number"], own, known["steps"], known["expansions"]))
        return results

    def _count(self, n_rows: int) -> None:
        in_focus = self._live[self._n_resting :]
        self._statistics.count_step(n_rows)
        self._statistics.count_beams(in_focus.size)
        self._known["steps"][in_focus] += 1
        self._known["expansions"][in_focus] += self._known["width"][in_focus]

    def _look(self) -> None:
        """Learn which beams are in focus, and to which of them each row belongs."""
        in_focus = self._live[self._n_resting :]
        self._focus = torch.from_numpy(in_focus).to(self._row_slot.device)
        position = torch.zeros(self._slots.n, dtype=torch.long, device=self._focus.device)
        position[self._focus] = torch.arange(in_focus.size, device=self._focus.device)
        self._beam = position[self._row_slot[self._n_resting_rows :]]
        self._widest = int(self._known["width"][in_focus].max(initial=0))


def _score(hypothesis: Dict[str, Any]) -> float:
    return hypothesis["score"].item()
