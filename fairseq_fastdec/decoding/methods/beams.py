"""Beams of candidates: what fixed, variable and streaming beam search have in common.

Names and lines are those of Yang, Yao, DeNero and Klein (EMNLP 2020), section 2 and Algorithm 1.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ...engine import Shortlist
from ...generators.constraints import GenerationRules
from ...generators.hypothesis import Hypothesis, hypothesis
from ...generators.repeated_ngrams import forbidden_after
from ...generators.statistics import Statistics
from ...network import Ensemble
from .generator import union
from .sampling import Draws


@dataclass(eq=False)
class Candidate:
    """A hypothesis y, finished if it ends with EOS.

    Attributes:
        tokens, scores: its tokens, without the one before the first, and their log-probabilities.
        total: log P(y), the sum of the scores as float32 adds them up.
        row: the row of the network that holds it, or held the candidate that it extends.
    """

    tokens: List[int]
    scores: List[float]
    total: float
    row: int = 0

    def extended(self, token: int, score: float, total: float) -> "Candidate":
        """The candidate with one more token."""
        return Candidate([*self.tokens, token], [*self.scores, score], total, self.row)


@dataclass(eq=False)
class Beam:
    """The beam B_i of one sentence.

    Attributes:
        number: i, the sentence's place in its batch.
        max_len: the most tokens of a hypothesis, without EOS.
        forced: the tokens that hypotheses have to begin with.
        n_waived: for how many first tokens --min-len does not hold.
        allowed: the target types of a shortlist that the source allows.
        growing: the candidates to be expanded, of one length, best first.
        waiting: finished candidates on the beam that are not the best one (appendix A.1).
        final: the hypotheses of the result.
        steps, expansions: how often the beam was expanded, and its candidates over all times.
    """

    number: int
    max_len: int
    forced: List[int]
    n_waived: int
    allowed: Optional[np.ndarray] = None
    growing: List[Candidate] = field(default_factory=lambda: [Candidate([], [], 0.0)])
    waiting: List[Candidate] = field(default_factory=list)
    final: List[Candidate] = field(default_factory=list)
    steps: int = 0
    expansions: int = 0

    @property
    def length(self) -> int:
        """l_t, the number of tokens of the growing candidates."""
        return len(self.growing[0].tokens)


@dataclass
class BeamRule:
    """Which candidates stay on a beam.

    Attributes:
        width: k, the most candidates of a beam and hypotheses of a sentence.
        threshold: delta, the absolute threshold of section 4; infinite for no pruning.
        per_candidate: M, the most extensions of one candidate (section 4); ``None`` for any number.
        waits: whether a finished candidate waits on the beam until it is the best (appendix A.1,
            ``--finalize paper``), or is final at once as in fairseq (``--finalize fairseq``).
        draws: draws each candidate's one extension, ``--sampling``; ``None`` for the best ones.
    """

    width: int
    threshold: float
    per_candidate: Optional[int]
    waits: bool
    draws: Optional[Draws] = None

    @property
    def n_extensions(self) -> int:
        """How many extensions of a beam are looked at; half of 2k may be finished."""
        return self.width if self.waits else 2 * self.width

    def update(self, beam: Beam, extensions: List[Candidate], eos: int) -> None:
        """Line 16, from B_i of length l_t to l_t + 1, and line 17, its finalized candidates.

        Args:
            extensions: of the growing candidates, in their order.
        """
        n_open = self.width - len(beam.final)
        if self.draws is None:
            extensions = sorted(extensions, key=_total, reverse=True)[: self.n_extensions]
        if self.waits:
            # Finished candidates have no expansions. They compete as they are.
            candidates = sorted(extensions + beam.waiting, key=_total, reverse=True)[: self.width]
            n_best = next(
                (n for n, own in enumerate(candidates) if own.tokens[-1] != eos), len(candidates)
            )
            # Those that no growing candidate is better than become final.
            final = candidates[:n_best][:n_open]
            kept = self._within_threshold(beam, candidates, candidates[n_best:])
            on_beam = kept[: n_open - len(final)]
            beam.waiting = [own for own in on_beam if own.tokens[-1] == eos]
            beam.growing = [own for own in on_beam if own.tokens[-1] != eos]
        else:
            kept = self._within_threshold(beam, extensions, extensions)
            ends = [own for own in extensions[: self.width] if own.tokens[-1] == eos]
            final = [own for own in ends if own in kept][:n_open]
            beam.growing = [own for own in kept if own.tokens[-1] != eos][: self.width]
        beam.final += final

    def is_done(self, beam: Beam) -> bool:
        """Whether a sentence has all of its hypotheses, or no candidate can be expanded."""
        return len(beam.final) >= self.width or not beam.growing

    def _within_threshold(
        self, beam: Beam, candidates: List[Candidate], some: List[Candidate]
    ) -> List[Candidate]:
        """Those of some that are not worse than the best one of all by more than delta."""
        if self.threshold == math.inf:
            return some
        best = max(own.total for own in (*candidates[:1], *beam.final))
        return [own for own in some if own.total >= best - self.threshold]


class BeamBatch:
    """The beams that are being decoded. Each growing candidate has a row of the network.

    Attributes:
        beams: B of Algorithm 1.
    """

    def __init__(
        self,
        network: Ensemble,
        rules: GenerationRules,
        rule: BeamRule,
        statistics: Statistics,
        shortlist: Optional[Shortlist] = None,
    ) -> None:
        self._network, self._rules, self._rule = network, rules, rule
        self._statistics, self._shortlist = statistics, shortlist
        self.beams: List[Beam] = []
        network.reset()

    def admit(self, beams: Sequence[Beam], net_input: Dict[str, Any], device: torch.device) -> None:
        """Lines 9 to 11: encode more sources, whose beams hold one empty candidate each."""
        for row, beam in enumerate(beams, start=self._network.n_rows):
            beam.growing[0].row = row
        self.beams = [*self.beams, *beams]
        if self._shortlist is not None:
            allowed = [beam.allowed for beam in self.beams]
            self._network.restrict(union(self._shortlist, allowed, device))
        self._network.encode(net_input)
        self._statistics.encoder_invocations += 1
        self._device = device

    def expand(self, focus: Sequence[Beam], bos: int) -> List[Beam]:
        """Lines 13 to 18: extend the candidates of some beams by one token.

        Args:
            bos: the token before the first.

        Returns:
            the beams whose sentences are done, which leave
        """
        # Line 15: compute the expansions D(e_i, y_ij).
        candidates = [(beam, own) for beam in focus for own in beam.growing]
        rows = torch.tensor([own.row for _, own in candidates], device=self._device)
        last = [own.tokens[-1] if own.tokens else bos for _, own in candidates]
        features = self._network.step(torch.tensor(last, device=self._device)[:, None], rows=rows)
        self._network.keep(torch.ones_like(rows))
        self._statistics.count_step(len(candidates))
        self._statistics.count_beams(len(focus), sum(len(beam.waiting) for beam in focus))
        log_probs = self._constrained(self._network.log_probs(features[:, 0]), candidates, bos)
        extensions = iter(self._extensions(log_probs, candidates))
        done = []
        for beam in focus:
            found = [own for _ in beam.growing for own in next(extensions)]
            beam.steps, beam.expansions = beam.steps + 1, beam.expansions + len(beam.growing)
            first = beam.growing[0]
            self._rule.update(beam, found, self._rules.eos)
            if self._rule.is_done(beam):
                # A model whose numbers are NaN allows no token: the sentence ends as it stands.
                end = first.extended(self._rules.eos, -math.inf, -math.inf)
                beam.final = beam.final or [end]
                done.append(beam)
        # Line 18: remove terminated beams, and the rows of all candidates that do not grow.
        self.beams = [beam for beam in self.beams if beam not in done]
        growing = [own for beam in self.beams for own in beam.growing]
        self._network.select(rows.new_tensor([own.row for own in growing]))
        for row, own in enumerate(growing):
            own.row = row
        return done

    def _constrained(
        self, log_probs: Tensor, candidates: Sequence[Tuple[Beam, Candidate]], bos: int
    ) -> Tensor:
        """Apply fairseq's rules, in place, to ``[R, V]``."""
        limits = [(beam.length, beam.max_len, beam.n_waived) for beam, _ in candidates]
        steps, max_len, n_waived = torch.tensor(limits, device=log_probs.device).unbind(1)
        self._rules.constrain(log_probs, steps, max_len, n_waived)
        for row, (beam, own) in enumerate(candidates):
            if beam.length < len(beam.forced):
                token = beam.forced[beam.length]
                score = log_probs[row, token].clone()
                log_probs[row] = -math.inf
                log_probs[row, token] = score
            elif self._rules.no_repeat_ngram_size:
                context = [bos, *own.tokens]
                forbidden = forbidden_after(context, self._rules.no_repeat_ngram_size)
                log_probs[row, forbidden] = -math.inf
        return log_probs

    def _extensions(
        self, log_probs: Tensor, candidates: Sequence[Tuple[Beam, Candidate]]
    ) -> Iterator[List[Candidate]]:
        """The extensions of each candidate that its beam may keep.

        Args:
            log_probs: ``[R, V]``.
        """
        rule = self._rule
        if rule.draws is None:
            n = min(rule.n_extensions, rule.per_candidate or rule.n_extensions, log_probs.size(1))
            choices = zip(*log_probs.topk(n))
        else:
            choices = self._drawn(rule.draws, log_probs, candidates)
        for (_, own), (scores, tokens) in zip(candidates, choices):
            totals = scores + own.total
            columns = (tokens.tolist(), scores.tolist(), totals.tolist())
            found = [own.extended(*extension) for extension in zip(*columns)]
            yield [candidate for candidate in found if candidate.total > -math.inf]

    def _drawn(
        self, draws: Draws, log_probs: Tensor, candidates: Sequence[Tuple[Beam, Candidate]]
    ) -> Iterator[Tuple[Tensor, Tensor]]:
        """Log-probabilities and tokens that are drawn for each candidate: k for an empty one."""
        for row, (beam, own) in enumerate(candidates):
            places = [beam.growing.index(own)] if own.tokens else range(self._rule.width)
            yield draws.draw(log_probs[row], beam.number, beam.length, places)


def results_of(beam: Beam, rules: GenerationRules, device: torch.device) -> List[Hypothesis]:
    """The hypotheses of a sentence that is done as fairseq's dicts, best first."""
    lengths = torch.tensor([len(own.tokens) for own in beam.final])
    totals = torch.tensor([own.total for own in beam.final], dtype=torch.float32)
    scores = rules.normalized(totals, lengths)
    parts = zip(beam.final, scores.to(device))
    found = [
        hypothesis(
            torch.tensor(own.tokens, device=device), score, torch.tensor(own.scores, device=device)
        )
        for own, score in parts
    ]
    return sorted(found, key=lambda one: one["score"].item(), reverse=True)


def _total(candidate: Candidate) -> float:
    return candidate.total
