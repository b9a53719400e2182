"""Beams of candidates, and which candidates stay on a beam.

Names are those of Yang, Yao, DeNero and Klein (EMNLP 2020), sections 2 and 4 and appendix A.1.
"""

import math
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
import torch
from fairseq.dataclass import ChoiceEnum

from ..constraints import GenerationRules
from ..hypothesis import Hypothesis, hypothesis
from ..option_rules import option
from .sampling import Draws

BEAMS = ("beam", "variable_beam", "streaming")
FINALIZE_CHOICES = ChoiceEnum(["paper", "fairseq"])


@dataclass
class PruningOptions:
    """The options for pruning."""

    prune_threshold: Optional[float] = option(
        None,
        "beams: forget candidates whose log-probability is worse by more than this "
        "than the best candidate's; inf = none (default: 1.5, but inf for beam)",
        methods=BEAMS,
        at_least=0,
    )
    max_candidates: Optional[int] = option(
        None,
        "beams: look at no more than this many continuations of the same candidate "
        "(default: 5, but as many as there are for beam)",
        methods=BEAMS,
        at_least=1,
    )
    finalize: Optional[FINALIZE_CHOICES] = option(
        None,
        "beams: fairseq = what ends is a hypothesis at once; paper = it stays on the "
        "beam while better ones grow, and may fall off it (default: paper; fairseq for beam)",
        methods=BEAMS,
    )


@dataclass(eq=False)
class Candidate:
    """A hypothesis y, finished if it ends with EOS.

    Attributes:
        tokens, scores: its tokens, without the one before the first, and their log-probabilities.
        total: log P(y), the sum of the scores as float32 adds them up.
        row: the row of the network that holds it, or held the candidate that it extends.
    """

    tokens: list[int]
    scores: list[float]
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
    forced: list[int]
    n_waived: int
    allowed: Optional[np.ndarray] = None
    growing: list[Candidate] = field(default_factory=lambda: [Candidate([], [], 0.0)])
    waiting: list[Candidate] = field(default_factory=list)
    final: list[Candidate] = field(default_factory=list)
    steps: int = 0
    expansions: int = 0

    @property
    def length(self) -> int:
        """l_t, the number of tokens of the growing candidates."""
        return len(self.growing[0].tokens)


@dataclass
class BeamRule:
    """A rule for which candidates stay on a beam.

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
        """The number of extensions of a beam that compete; of 2k, k are not finished."""
        return self.width if self.waits else 2 * self.width

    def update(self, beam: Beam, extensions: list[Candidate], eos: int) -> None:
        """Line 16, from B_i of length l_t to l_t + 1, and line 17, its finalized candidates.

        Args:
            extensions: of the growing candidates, in their order.
        """
        if self.draws is None:
            extensions = sorted(extensions, key=_total, reverse=True)[: self.n_extensions]
        if self.waits:
            self._update_as_paper(beam, extensions, eos)
        else:
            self._update_as_fairseq(beam, extensions, eos)

    def _update_as_paper(self, beam: Beam, extensions: list[Candidate], eos: int) -> None:
        """Appendix A.1: a finished candidate stays on the beam until it is the best one."""
        # Finished candidates have no expansions. They compete as they are.
        candidates = sorted(extensions + beam.waiting, key=_total, reverse=True)[: self.width]
        is_growing = [own.tokens[-1] != eos for own in candidates]
        # Candidates that no growing one is better than become final.
        n_best = is_growing.index(True) if any(is_growing) else len(candidates)
        n_open = self.width - len(beam.final)
        final = candidates[:n_best][:n_open]
        kept = self._within_threshold(beam, candidates, candidates[n_best:])
        on_beam = kept[: n_open - len(final)]
        beam.growing = [own for own in on_beam if own.tokens[-1] != eos]
        beam.waiting = [own for own in on_beam if own.tokens[-1] == eos]
        beam.final += final

    def _update_as_fairseq(self, beam: Beam, extensions: list[Candidate], eos: int) -> None:
        """A candidate that ends among the first k is final at once, and k others grow."""
        kept = self._within_threshold(beam, extensions, extensions)
        ends = [own for own in extensions[: self.width] if own.tokens[-1] == eos and own in kept]
        beam.growing = [own for own in kept if own.tokens[-1] != eos][: self.width]
        beam.final += ends[: self.width - len(beam.final)]

    def is_done(self, beam: Beam) -> bool:
        """Whether a sentence has all of its hypotheses, or no candidate can be expanded."""
        return len(beam.final) >= self.width or not beam.growing

    def _within_threshold(
        self, beam: Beam, candidates: list[Candidate], some: list[Candidate]
    ) -> list[Candidate]:
        """Those of some that are not worse than the best one of all by more than delta."""
        best = max((own.total for own in (*candidates[:1], *beam.final)), default=-math.inf)
        return [own for own in some if own.total >= best - self.threshold]


def results_of(beam: Beam, rules: GenerationRules, device: torch.device) -> list[Hypothesis]:
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
