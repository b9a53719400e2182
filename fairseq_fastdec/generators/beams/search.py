"""Beam search over sentences that come and go, with beams of any width."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, Dict, List, Optional

import numpy as np
import torch

from ...engine import EnsembleSession, Scores, compaction
from ..constraints import GenerationRules, TokenConstraints
from ..expansion import Expansion
from ..repeated_ngrams import RepeatedNgrams
from ..statistics import Statistics
from ..top_tokens import Best, Chooser
from .candidates import Wanted, best_extensions
from .finalization import FINALIZATIONS
from .focus import Focus
from .history import History
from .request import Result, Sentences
from .sampling import Sampler, Sampling
from .slots import Slots
from .survival import Survival


@dataclass
class Heuristics:
    """The choice of candidates (Yang et al. 2020, section 4).

    Attributes:
        width: K, the entries of a beam.
        threshold: delta, in nats; infinite for no pruning.
        per_entry: M, the candidates from one entry; ``None`` for any number.
        finalize: the name of the rule for ended candidates, one of ``FINALIZATIONS``.
        sampling: how each entry's one candidate is drawn; ``None`` where the best are taken.
    """

    width: int
    threshold: float
    per_entry: Optional[int]
    finalize: str
    sampling: Optional[Sampling] = None


class BeamSearch:
    """The sentences under way. Each step expands those in *focus*; the others rest.

    The rows of the session are the growing entries of all beams; the rows in focus are the last
    ones. All this is on the host. In a step the device is told the tokens and the order of the
    rows, and the host each row's best tokens.

    Attributes:
        device: the session's.
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
        self._expansion = Expansion(session, device)
        self._rules = rules
        self._chooser = Chooser(rules)
        self._repeated_ngrams = RepeatedNgrams.of(rules)
        self._before_first = rules.eos
        self._statistics = statistics
        finalization = FINALIZATIONS[heuristics.finalize]
        n_candidates = heuristics.width * finalization.candidates_per_entry
        self._wanted = Wanted(n_candidates, heuristics.per_entry)
        self._sampler: Optional[Sampler] = None
        if heuristics.sampling is not None:
            self._sampler = Sampler(heuristics.sampling, self._chooser, heuristics.width)
        self.device = device
        self._slots = Slots(heuristics.width)
        self._history = History(heuristics.width)
        self._focus = Focus(heuristics.width)
        self._survival = Survival.of(
            self._slots, self._history, self._focus, finalization, heuristics.threshold, rules.eos
        )
        nothing = np.zeros(0, dtype=np.int64)
        # The slots that rest, in the order of their rows; and the slot and column of each row.
        self._resting = self._resting_row_slots = self._resting_columns = nothing

    @property
    def n_sentences(self) -> int:
        """S, the number of sentences under way."""
        return self._resting.size + self._focus.n_beams

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the sentences under way, ``[S]``."""
        return self._slots.number[self._under_way]

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of their entries, ``[S]``."""
        return self._slots.length[self._under_way]

    @property
    def widths(self) -> np.ndarray:
        """The number of growing entries of their beams, ``[S]``."""
        return self._slots.width[self._under_way]

    @property
    def _under_way(self) -> np.ndarray:
        """The slots in use, in the order of their rows. Those in focus are the last ones."""
        return np.concatenate([self._resting, self._focus.slots])

    def begin(self, ids: List[int]) -> None:
        """Note the numbers, in the whole run, of the sentences that will be admitted."""
        if self._sampler is not None:
            self._sampler.begin(ids)

    def admit(self, new: Sentences, bos: int) -> None:
        """Encode more sentences; each begins with one entry, ``bos``, in focus."""
        slots = self._slots.take(len(new.numbers), new.prefix.cpu().numpy())
        self._slots.number[slots] = new.numbers
        for name in ("max_len", "n_forced", "n_waived"):
            getattr(self._slots, name)[slots] = getattr(new, name)
        self._history.reserve(self._slots.n, 1)
        self._history.begin(slots, bos)
        self._before_first = bos
        self._session.add(new.net_input, new.prefix)
        self._expansion.renew()
        self._statistics.encoder_invocations += 1
        focus = self._focus
        self._set_focus(
            np.concatenate([focus.slots, slots]),
            np.concatenate([focus.row_slots, slots]),
            np.concatenate([focus.columns, np.zeros_like(slots)]),
        )

    def focus(self, chosen: Optional[np.ndarray]) -> None:
        """Expand the ``chosen`` sentences from now on: bool ``[S]``, at least one; or all."""
        n_resting = self._resting.size
        if chosen is None:
            if not n_resting:
                return
            chosen = np.ones(self.n_sentences, dtype=bool)
        if np.array_equal(chosen, np.arange(chosen.size) >= n_resting):
            return
        live = self._under_way
        row_slots = np.concatenate([self._resting_row_slots, self._focus.row_slots])
        columns = np.concatenate([self._resting_columns, self._focus.columns])
        slot_chosen = np.zeros(self._slots.n, dtype=bool)
        slot_chosen[live[chosen]] = True
        order = slot_chosen[row_slots].argsort(kind="stable")
        if (np.diff(order) < 0).any():
            self._session.pause(0)
            self._session.select(torch.from_numpy(order).to(self.device))
            row_slots, columns = row_slots[order], columns[order]
        self._resting = live[~chosen]
        n_rows = int(self._slots.width[self._resting].sum())
        self._resting_row_slots, self._resting_columns = row_slots[:n_rows], columns[:n_rows]
        self._session.pause(n_rows)
        self._set_focus(live[chosen], row_slots[n_rows:], columns[n_rows:])

    def step(self) -> List[Result]:
        """Expand the beams in focus by one token; returns the sentences that end with it."""
        focus = self._focus
        scores = self._expansion.step(focus.tokens)
        self._statistics.count_step(focus.n_rows)
        n_waiting = int(self._slots.n_waiting[focus.slots].sum())
        self._statistics.count_beams(focus.n_beams, n_waiting)
        done = self._survival.judge(self._extensions(scores))
        order, results = None, []
        if done is not None:
            results = self._results(focus.slots[done])
            # In the order in which the session's sources close the gaps.
            order = compaction(torch.from_numpy(~done)).numpy()
        if self._survival.extend(order):
            self._session.select(focus.origins_on(self.device))
        if done is not None:
            self._note_limits()
        return results

    def _extensions(self, scores: Scores) -> Best:
        """The candidates of the beams in focus.

        Args:
            scores: of the rows, ``[R, V]``.
        """
        beams, constraints = self._focus.beams, self._constraints()
        if self._sampler is None:
            return best_extensions(self._chooser, scores, beams, self._wanted, constraints)
        known, slots = self._slots, self._focus.slots
        places = (known.number[slots], known.length[slots])
        return self._sampler.extensions(scores, beams, *places, constraints)

    def _constraints(self) -> Optional[TokenConstraints]:
        """The constraints on the rows' next tokens by rules and a prefix; ``None`` if none."""
        known, focus = self._slots, self._focus
        extremes = (focus.shortest, focus.longest)
        forbidden = self._forbidden()
        is_open = all(self._rules.leaves_open(at, self._max_len, self._n_forced) for at in extremes)
        if is_open and forbidden is None:
            return None
        slots = focus.row_slots
        steps = known.length[slots]
        constraints = self._rules.constraints_at(steps, known.max_len[slots], known.n_waived[slots])
        forced = (steps < known.n_forced[slots]).nonzero()[0]
        constraints.only[forced] = known.forced[slots[forced], steps[forced]]
        if forbidden is not None:
            # What a prefix repeats is forced nevertheless.
            forbidden[forced] = self._rules.pad
        return constraints._replace(forbidden=forbidden)

    def _forbidden(self) -> Optional[np.ndarray]:
        """The tokens that would repeat an n-gram of a row: int64 ``[R, M]``; ``None`` if none."""
        if self._repeated_ngrams is None:
            return None
        slots = self._focus.row_slots
        lengths = self._slots.length[slots]
        tokens, starts = self._history.rows(slots, lengths, self._focus.columns, self._rules.eos)
        return self._repeated_ngrams.after_rows(tokens, starts, lengths, self._before_first)

    def _results(self, slots: np.ndarray) -> List[Result]:
        """The hypotheses of the sentences in the ``slots``, which are done and give these back."""
        known = self._slots
        known.end_as_they_stand(slots[known.n_final[slots] == 0])
        ends = known.ends(slots)
        hypotheses = iter(self._history.hypotheses(ends, self._rules, self.device))
        results = []
        for slot in slots.tolist():
            own = sorted(islice(hypotheses, int(known.n_final[slot])), key=_score, reverse=True)
            costs = (int(values[slot]) for values in (known.steps, known.expansions))
            results.append(Result(int(known.number[slot]), own, *costs))
        known.give_back(slots)
        return results

    def _set_focus(self, slots: np.ndarray, row_slots: np.ndarray, columns: np.ndarray) -> None:
        """Expand the beams in these slots, ``[S]``, with these rows, ``[R]``, from now on."""
        self._focus.begin(slots, row_slots, columns, self._slots, self._history)
        self._note_limits()

    def _note_limits(self) -> None:
        """Note between which lengths no row in focus has a constraint."""
        slots = self._focus.slots
        if slots.size:
            self._max_len = int(self._slots.max_len[slots].min())
            self._n_forced = int(self._slots.n_forced[slots].max())


def _score(hypothesis: Dict[str, Any]) -> float:
    return hypothesis["score"].item()
