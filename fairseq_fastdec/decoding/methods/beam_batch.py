"""The beams of a batch, whose growing candidates are the rows of the network.

Line numbers refer to Algorithm 1 of Yang, Yao, DeNero and Klein (EMNLP 2020).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from ...network import Ensemble
from ..constraints import GenerationRules, forbidden_after, force, read_together
from ..statistics import Statistics
from .beams import Beam, BeamRule, Candidate
from .sampling import Draws


class BeamBatch:
    """The beams in progress. Each growing candidate is a row of the network.

    Attributes:
        beams: B of Algorithm 1.
    """

    def __init__(
        self,
        network: Ensemble,
        rules: GenerationRules,
        rule: BeamRule,
        draws: Optional[Draws],
        statistics: Statistics,
    ) -> None:
        """
        Args:
            draws: samples one extension of each candidate; ``None`` for the best extensions.
        """
        self._network, self._rules, self._rule, self._draws = network, rules, rule, draws
        self._statistics = statistics
        self.beams: list[Beam] = []
        network.reset()

    def admit(self, beams: Sequence[Beam], net_input: dict[str, Any], device: torch.device) -> None:
        """Lines 9 to 11: encode more sources, whose beams start with one empty candidate each."""
        for row, beam in enumerate(beams, start=self._network.n_rows):
            beam.growing[0].row = row
        self.beams = [*self.beams, *beams]
        allowed = [beam.allowed for beam in beams if beam.allowed is not None]
        self._network.encode(net_input, allowed or None)
        self._statistics.encoder_invocations += 1
        self._device = device

    def expand(self, focus: Sequence[Beam], bos: int) -> list[Beam]:
        """Lines 13 to 18: extend the candidates of some beams by one token.

        Args:
            focus: beams that follow each other, as those of equal length do in a refilled batch.
            bos: the token before the first.

        Returns:
            the beams whose sentences are done; they are removed
        """
        # Line 15: compute the expansions D(e_i, y_ij).
        candidates = [(beam, candidate) for beam in focus for candidate in beam.growing]
        rows = slice(candidates[0][1].row, candidates[-1][1].row + 1)
        last = [candidate.tokens[-1] if candidate.tokens else bos for _, candidate in candidates]
        tokens = torch.tensor(last, device=self._device)
        features = self._network.step(tokens[:, None], rows=rows)
        self._network.keep(torch.ones_like(tokens))
        self._statistics.count_step(len(candidates))
        self._statistics.count_beams(len(focus), sum(len(beam.waiting) for beam in focus))
        log_probs = self._constrained(self._network.log_probs(features[:, 0]), candidates, bos)
        extensions = self._best if self._draws is None else self._drawn
        done = []
        for beam, found in zip(focus, extensions(log_probs, focus)):
            found = [candidate for candidate in found if candidate.total > -math.inf]
            beam.steps, beam.expansions = beam.steps + 1, beam.expansions + len(beam.growing)
            first = beam.growing[0]
            self._rule.update(beam, found, self._rules.eos, self._draws is not None)
            if self._rule.is_done(beam):
                # If the model gives NaN, no token is possible: the sentence ends here.
                end = first.extended(self._rules.eos, -math.inf, -math.inf)
                beam.final = beam.final or [end]
                done.append(beam)
        # Line 18: remove terminated beams, and the rows of all candidates that do not grow.
        self.beams = [beam for beam in self.beams if beam not in done]
        growing = [candidate for beam in self.beams for candidate in beam.growing]
        self._network.select([candidate.row for candidate in growing])
        for row, candidate in enumerate(growing):
            candidate.row = row
        return done

    def _constrained(
        self, log_probs: Tensor, candidates: Sequence[tuple[Beam, Candidate]], bos: int
    ) -> Tensor:
        """Apply fairseq's rules, in place, to ``[R, V]``."""
        rules, limits = self._rules, [(b.length, b.max_len, b.n_waived) for b, _ in candidates]
        if any(length < rules.min_len or length >= max_len for length, max_len, _ in limits):
            rules.constrain(log_probs, *torch.tensor(limits, device=log_probs.device).unbind(1))
        else:
            rules.penalize(log_probs)
        for row, ((beam, candidate), (length, max_len, _)) in enumerate(zip(candidates, limits)):
            only = self._rules.eos if length >= max_len else None
            progress = candidate.progress
            if progress is not None and only is None and not progress.are_met:
                log_probs[row, self._rules.eos] = -math.inf
            due = progress and progress.due_token(length, max_len)
            if length < len(beam.forced):
                only = beam.forced[length]
                force(log_probs[row], only)
            elif due is not None:
                force(log_probs[row], due)
            elif self._rules.no_repeat_ngram_size or beam.forbidden:
                given = self._rules.no_repeat_ngram_size, beam.forbidden
                forbidden = forbidden_after([bos, *candidate.tokens], *given)
                log_probs[row, forbidden] = -math.inf
            if only is not None and self._rule.is_transformers:
                log_probs[row, only] = 0.0
            if beam.length_of_source is not None:
                # As in fairseq, also if another rule forbids EOS.
                if length >= beam.length_of_source:
                    log_probs[row, self._rules.eos] = 0.0
                elif length < max_len:
                    log_probs[row, self._rules.eos] = -math.inf
        return log_probs

    def _best(self, log_probs: Tensor, focus: Sequence[Beam]) -> Iterator[list[Candidate]]:
        """The extensions that each beam may keep: the best ones, and those of its constraints.

        Args:
            log_probs: ``[R, V]``, of the candidates of all beams in focus.
        """
        rule = self._rule
        n = min(rule.n_extensions, rule.max_candidates or rule.n_extensions, log_probs.size(1))
        scores, tokens = read_together(*log_probs.topk(n))
        before = [own.total for beam in focus for own in beam.growing]
        totals = scores + np.array(before, np.float32)[:, None]
        last = 0
        for beam in focus:
            first, last = last, last + len(beam.growing)
            is_constrained = beam.growing[0].progress is not None
            # In the order of the candidates, unless only the best of all compete.
            places = np.arange(n * len(beam.growing))
            if not rule.diverse_beam_groups and not is_constrained:
                places = np.argsort(-totals[first:last].ravel(), kind="stable")[: rule.n_extensions]
            chosen = (own[first:last].ravel()[places] for own in (tokens, scores, totals))
            found = [
                beam.growing[row].extended(*extension)
                for row, *extension in zip(*(own.tolist() for own in (places // n, *chosen)))
            ]
            for row, own in enumerate(beam.growing if is_constrained else (), start=first):
                found += self._others(log_probs[row], own, tokens[row])
            yield found

    def _others(self, log_probs: Tensor, own: Candidate, best: np.ndarray) -> Iterator[Candidate]:
        """The extensions of a candidate by tokens of its constraints that are not its best ones.

        Args:
            log_probs: ``[V]``.
        """
        assert own.progress is not None
        for token in own.progress.next_tokens():
            if token not in best:
                score = log_probs[token]
                yield own.extended(token, score.item(), (score + own.total).item())

    def _drawn(self, log_probs: Tensor, focus: Sequence[Beam]) -> Iterator[list[Candidate]]:
        """The extensions drawn for each beam: k of an empty candidate, else one of each.

        Args:
            log_probs: ``[R, V]``, of the candidates of all beams in focus.
        """
        assert self._draws is not None
        rows = iter(log_probs)
        for beam in focus:
            found = []
            for place, own in enumerate(beam.growing):
                places = [place] if own.tokens else range(self._rule.beam)
                scores, tokens = self._draws.draw(next(rows), beam.number, beam.length, places)
                totals = (scores + own.total).tolist()
                chosen = zip(tokens.tolist(), scores.tolist(), totals)
                found += [own.extended(*extension) for extension in chosen]
            yield found
