"""Beams of candidates, and the rule for which candidates stay on a beam.

Names follow Yang, Yao, DeNero and Klein (EMNLP 2020), sections 2 and 4 and appendix A.1.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations, zip_longest
from typing import Any, Optional

import numpy as np
import torch
from fairseq.dataclass import ChoiceEnum

from ...engine.searches import Phrases
from ..constraints import GenerationRules
from ..hypothesis import Hypothesis, best_first, hypothesis
from ..option_rules import option
from .lexical_constraints import ConstraintState

BEAMS = ("beam", "variable_beam", "streaming")
OF_PAIRS = "double_token"
FINALIZE_CHOICES = ChoiceEnum(["paper", "fairseq", "hf", "hf_early"])
# Those of transformers.
HUGGING_FACE = ("hf", "hf_early")


@dataclass
class PruningOptions:
    """The options for pruning."""

    prune_threshold: Optional[float] = option(
        None,
        "beams, double_token: prune candidates whose log-probability is lower than the best "
        "candidate's by more than this; inf = no pruning (default: 1.5, but inf for beam and "
        "double_token)",
        methods=(*BEAMS, OF_PAIRS),
        at_least=0,
    )
    max_candidates: Optional[int] = option(
        None,
        "beams, double_token: consider at most this many continuations of each candidate (default: "
        "5, but all for beam and double_token)",
        methods=(*BEAMS, OF_PAIRS),
        at_least=1,
    )
    finalize: Optional[FINALIZE_CHOICES] = option(
        None,
        "beams: fairseq = a candidate that ends becomes a hypothesis immediately; paper = it stays "
        "on the beam while better ones grow, and may be dropped; hf = as in transformers: like "
        "fairseq, but the search goes on while a better hypothesis is likely, and forced tokens "
        "have the score 0; hf_early = the same, but the search ends with the beam-th hypothesis "
        "(early_stopping); both only for beam (default: paper; fairseq for beam)",
        methods=BEAMS,
    )

    def check_together(self: Any) -> None:
        """Check ``--finalize hf``, for which transformers has neither pruning nor refilling."""
        if str(self.finalize) not in HUGGING_FACE:
            return
        if self.decoding != "beam":
            raise ValueError(
                f"--finalize {self.finalize}: does not apply to --decoding {self.decoding}; use "
                "--decoding beam"
            )
        if self.prune_threshold not in (None, math.inf):
            raise ValueError(
                f"--prune-threshold {self.prune_threshold}: cannot be combined with --finalize "
                f"{self.finalize}; remove one of them"
            )


@dataclass(eq=False)
class Candidate:
    """A hypothesis y, finished if it ends with EOS.

    Attributes:
        tokens, scores: its tokens, without BOS, and their log-probabilities.
        total: log P(y), the sum of the scores in float32.
        row: its row in the network, or that of the candidate that it extends.
        progress: how much of its constraints it contains; ``None`` for none.
    """

    tokens: list[int]
    scores: list[float]
    total: float
    row: int = 0
    progress: Optional[ConstraintState] = None

    def extended(self, token: int, score: float, total: float) -> "Candidate":
        """The candidate with one more token."""
        after = self.progress and self.progress.after(token)
        return Candidate([*self.tokens, token], [*self.scores, score], total, self.row, after)

    def reduced(self, penalty: float) -> "Candidate":
        """The candidate with a smaller score of its last token."""
        scores = [*self.scores[:-1], self.scores[-1] - penalty]
        return replace(self, scores=scores, total=self.total - penalty)


@dataclass(eq=False)
class Beam:
    """The beam B_i of one sentence.

    Attributes:
        number: i, the sentence's place in its batch.
        max_len: the most tokens of a hypothesis, without EOS.
        forced: the tokens that hypotheses have to begin with.
        n_waived: the number of first tokens for which --min-len is waived.
        allowed: the target types that a shortlist allows for the source; ``None`` for all.
        forbidden: the phrases that hypotheses may not contain.
        length_of_source: with --match-source-len, the number of tokens of the output.
        growing: the candidates to be expanded, all of the same length, best first.
        waiting: finished candidates on the beam that are not the best one (appendix A.1).
        final: the hypotheses of the result.
        overlap: how many tokens two groups of candidates have had in common, by their numbers.
        steps, expansions: the number of times the beam was expanded, and the total number of
            candidates expanded.
    """

    number: int
    max_len: int
    forced: list[int]
    n_waived: int
    allowed: Optional[np.ndarray] = None
    forbidden: Phrases = field(default_factory=list)
    length_of_source: Optional[int] = None
    growing: list[Candidate] = field(default_factory=lambda: [Candidate([], [], 0.0)])
    waiting: list[Candidate] = field(default_factory=list)
    final: list[Candidate] = field(default_factory=list)
    overlap: Counter[tuple[int, int]] = field(default_factory=Counter)
    steps: int = 0
    expansions: int = 0

    @property
    def length(self) -> int:
        """l_t, the number of tokens of the growing candidates."""
        return len(self.growing[0].tokens)


@dataclass
class BeamRule:
    """Decides which candidates stay on a beam.

    Attributes:
        beam: k, the maximum number of candidates of a beam and of hypotheses of a sentence.
        prune_threshold: delta, the absolute threshold of section 4; infinite for no pruning.
        max_candidates: M, the most extensions of one candidate (section 4); ``None`` for any
            number.
        finalize: ``paper``, a finished candidate waits on the beam until it is the best (appendix
            A.1), ``fairseq``, it is final immediately, ``hf``, it is final immediately, and
            replaces the worst of k, or ``hf_early``, likewise until there are k.
        lenpen: the power of the length by which scores are divided; only for transformers' rules.
        match_source_len: whether outputs have as many tokens as their sources.
        counts_source_end: whether the EOS of sources counts, as in fairseq 0.12.3.
        diverse_beam_groups: the number of groups of candidates, which divides k; 0 for none.
        diverse_beam_strength: by how much a token's score is reduced for each candidate of an
            earlier group that has it.
        cumulative_diversity: whether common tokens of earlier steps count, as in fairseq 0.12.3.
    """

    beam: int
    prune_threshold: float
    max_candidates: Optional[int]
    finalize: str
    lenpen: float = 1.0
    match_source_len: bool = False
    counts_source_end: bool = False
    diverse_beam_groups: int = 0
    diverse_beam_strength: float = 0.0
    cumulative_diversity: bool = False

    @property
    def is_papers(self) -> bool:
        """Whether finished candidates wait on the beam."""
        return self.finalize == "paper"

    @property
    def is_transformers(self) -> bool:
        """Whether the rules are those of transformers, in which forced tokens have the score 0."""
        return self.finalize in HUGGING_FACE

    @property
    def n_extensions(self) -> int:
        """The number of extensions of a beam that compete. At least k of 2k are unfinished."""
        return self.beam if self.is_papers or self.cumulative_diversity else 2 * self.beam

    def update(
        self, beam: Beam, extensions: list[Candidate], eos: int, are_samples: bool = False
    ) -> None:
        """Line 16, from B_i of length l_t to l_t + 1, and line 17, its finalized candidates.

        Args:
            extensions: of the growing candidates, in their order.
            are_samples: whether they were drawn, so that they do not compete.
        """
        if self.diverse_beam_groups:
            self._update_as_diverse(beam, self._of_groups(beam, extensions, eos), eos)
            return
        if not are_samples:
            extensions = sorted(extensions, key=_total, reverse=True)
            if beam.growing[0].progress is not None:
                extensions = self._allocated(beam, extensions)
            extensions = extensions[: self.n_extensions]
        if self.is_papers:
            self._update_as_paper(beam, extensions, eos)
        elif self.is_transformers:
            self._update_as_transformers(beam, extensions, eos)
        else:
            self._update_as_fairseq(beam, extensions, eos)

    def _allocated(self, beam: Beam, extensions: list[Candidate]) -> list[Candidate]:
        """Extensions with constraints, in the order in which they get places on the beam.

        These are the best of all, the best of each candidate, and those by tokens of constraints.
        The first of each bank come first, then the second, and so on (Post and Vilar 2018).

        Args:
            extensions: best first.
        """
        pool = extensions[: self.n_extensions]
        for candidate in beam.growing:
            own = [extension for extension in extensions if extension.row == candidate.row]
            wanted = candidate.progress.next_tokens() if candidate.progress else []
            of_tokens = {extension.tokens[-1]: extension for extension in own[1:]}
            pool += own[:1] + [of_tokens[token] for token in wanted if token in of_tokens]
        banks: dict[int, list[Candidate]] = {}
        for extension in sorted(dict.fromkeys(pool), key=_total, reverse=True):
            assert extension.progress is not None
            banks.setdefault(extension.progress.bank, []).append(extension)
        ranks = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        return [extension for rank in ranks for extension in rank if extension is not None]

    def _of_groups(self, beam: Beam, extensions: list[Candidate], eos: int) -> list[Candidate]:
        """The best extensions of each group: the first of all groups, the second, and so on.

        A candidate belongs to the group of its place on the beam. Each group avoids the tokens that
        earlier groups choose (Vijayakumar et al. 2018).
        """
        n_groups, first = self.diverse_beam_groups, beam.growing[0]
        n_own = self.n_extensions // n_groups
        groups: list[list[Candidate]] = []
        for number in range(n_groups):
            penalties: Counter[int] = Counter()
            for earlier, group in enumerate(groups):
                for other in group:
                    if other.total > -math.inf:
                        penalties[other.tokens[-1]] += 1 + beam.overlap[earlier, number]
            own = [
                extension.reduced(self.diverse_beam_strength * penalties[extension.tokens[-1]])
                for extension in extensions
                if beam.length == 0 or (extension.row - first.row) % n_groups == number
            ]
            own = sorted(own, key=_total, reverse=True)[:n_own]
            # Candidates that are not possible fill the other places; they cannot be extended.
            own += [first.extended(eos, -math.inf, -math.inf) for _ in range(n_own - len(own))]
            groups.append(own)
        if self.cumulative_diversity:
            for earlier, later in combinations(range(n_groups), 2):
                beam.overlap[earlier, later] += sum(
                    one.tokens[-1] == other.tokens[-1]
                    for one, other in zip(groups[earlier], groups[later])
                )
        return [extension for rank in zip(*groups) for extension in rank]

    def _update_as_diverse(self, beam: Beam, candidates: list[Candidate], eos: int) -> None:
        """As in fairseq: candidates grow in the order of the groups, not in that of their scores.

        With cumulative diversity, there are no others in place of those that have ended. These keep
        the last places, and fairseq extends them beyond EOS.
        """
        n_open = self.beam - (len(beam.final) if self.cumulative_diversity else 0)
        growing, over = list[Candidate](), list[Candidate]()
        for place, own in enumerate(candidates):
            is_end = own.tokens[-1] == eos and own.total > -math.inf
            is_over = is_end or n_open <= place < self.beam
            (over if is_over else growing).append(own)
            if is_end and place < n_open and len(beam.final) < self.beam:
                beam.final.append(own)
        beam.growing = (growing + over)[: self.beam]
        if all(own.tokens[-1] == eos for own in beam.growing):
            beam.growing = []

    def _update_as_paper(self, beam: Beam, extensions: list[Candidate], eos: int) -> None:
        """Appendix A.1: a finished candidate stays on the beam until it is the best one."""
        # Finished candidates are not expanded; they compete with their scores.
        candidates = sorted(extensions + beam.waiting, key=_total, reverse=True)[: self.beam]
        is_growing = [candidate.tokens[-1] != eos for candidate in candidates]
        # Finished candidates better than all growing ones become final.
        n_best = is_growing.index(True) if any(is_growing) else len(candidates)
        n_open = self.beam - len(beam.final)
        final = candidates[:n_best][:n_open]
        kept = self._within_threshold(beam, candidates, candidates[n_best:])
        on_beam = kept[: n_open - len(final)]
        beam.growing = [candidate for candidate in on_beam if candidate.tokens[-1] != eos]
        beam.waiting = [candidate for candidate in on_beam if candidate.tokens[-1] == eos]
        beam.final += final

    def _update_as_fairseq(self, beam: Beam, extensions: list[Candidate], eos: int) -> None:
        """A candidate that ends among the first k is final immediately, and k others grow."""
        kept = self._within_threshold(beam, extensions, extensions)
        ends = [
            candidate
            for candidate in extensions[: self.beam]
            if candidate.tokens[-1] == eos and candidate in kept
        ]
        growing = [candidate for candidate in kept if candidate.tokens[-1] != eos]
        beam.growing = growing[: self.beam]
        beam.final += ends[: self.beam - len(beam.final)]

    def _update_as_transformers(self, beam: Beam, extensions: list[Candidate], eos: int) -> None:
        """As in fairseq, but the best k of all that end are kept."""
        ends = [own for own in extensions[: self.beam] if own.tokens[-1] == eos]
        growing = [own for own in extensions if own.tokens[-1] != eos]
        beam.growing = growing[: self.beam]
        beam.final = sorted(beam.final + ends, key=self._normalized, reverse=True)[: self.beam]

    def is_done(self, beam: Beam) -> bool:
        """Whether a sentence has all of its hypotheses, or no candidate can be expanded."""
        if len(beam.final) < self.beam or not beam.growing:
            return not beam.growing
        if self.finalize != "hf":
            return True
        # transformers estimates the best score that is possible by that at the current length. With
        # constraints, the first candidate need not be the best one.
        best = max(map(self._normalized, beam.growing))
        return not best > self._normalized(beam.final[-1])

    def _normalized(self, candidate: Candidate) -> float:
        return candidate.total / len(candidate.tokens) ** self.lenpen

    def _within_threshold(
        self, beam: Beam, candidates: list[Candidate], some: list[Candidate]
    ) -> list[Candidate]:
        """The candidates in ``some`` that are within delta of the best one."""
        best = max(
            (candidate.total for candidate in (*candidates[:1], *beam.final)), default=-math.inf
        )
        return [candidate for candidate in some if candidate.total >= best - self.prune_threshold]


def results_of(beam: Beam, rules: GenerationRules, device: torch.device) -> list[Hypothesis]:
    """The hypotheses of a finished sentence as fairseq's dicts, best first."""
    return best_first(
        hypothesis(
            torch.tensor(candidate.tokens, device=device),
            rules.normalized(candidate.total, len(candidate.tokens)),
            torch.tensor(candidate.scores, device=device),
        )
        for candidate in beam.final
    )


def _total(candidate: Candidate) -> float:
    return candidate.total
