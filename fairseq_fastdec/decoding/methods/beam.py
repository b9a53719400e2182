"""Beam search of fixed width, as in fairseq (Yang et al. 2020, section 2)."""

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Optional

import numpy as np
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.search import DiverseBeamSearch
from fairseq.sequence_generator import SequenceGenerator

from ...engine.searches import Result, SearchOptions, check_constraints
from ...translating.generation_options import (
    BEAM_FLAGS,
    CONSTRAINTS,
    DEFAULT_STRENGTH,
    DIVERSE_BEAM_GROUPS,
    MATCH_SOURCE_LEN,
    SAMPLING_FLAGS,
)
from ..generator import DecodingGenerator
from ..glossary_file import GlossaryFile
from ..option_rules import given
from ..request import Request
from .beam_batch import BeamBatch
from .beams import Beam, BeamRule, results_of
from .lexical_constraints import ConstraintState
from .sampling import Draws


def counts_source_end() -> bool:
    """Whether the EOS of a source counts for fairseq's ``--match-source-len``: since 0.12.3."""
    return 'net_input["src_lengths"]' in inspect.getsource(SequenceGenerator._generate)


def is_diversity_cumulative() -> bool:
    """Whether common tokens of earlier steps count for fairseq's diverse beams: since 0.12.3."""
    return "diversity_discount" in inspect.signature(DiverseBeamSearch.__init__).parameters


class FixedBeam(DecodingGenerator):
    """Expands the k best candidates of each sentence of a batch in each step.

    By default, hypotheses and scores are those of fairseq's ``SequenceGenerator``.
    """

    accepts_blocks = False
    honours = DecodingGenerator.honours | SAMPLING_FLAGS | BEAM_FLAGS
    default_threshold = math.inf
    default_max_candidates: Optional[int] = None
    default_finalize = "fairseq"
    glossary: Optional[GlossaryFile] = None

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options, self.draws = self.options, Draws.from_args(self.args)
        n_groups = max(getattr(self.args, "diverse_beam_groups", 0), 0)
        if n_groups and self.beam % n_groups:
            raise ValueError(
                f"{DIVERSE_BEAM_GROUPS} {n_groups}: must divide --beam {self.beam}; change either"
            )
        if self.draws is not None:
            self.rule = BeamRule(self.beam, math.inf, None, "fairseq")
        else:
            self.rule = BeamRule(
                self.beam,
                lenpen=self.rules.lenpen if self.rules.normalize else 0.0,
                prune_threshold=given(options.prune_threshold, self.default_threshold),
                max_candidates=given(options.max_candidates, self.default_max_candidates),
                finalize=str(given(options.finalize, self.default_finalize)),
                match_source_len=getattr(self.args, "match_source_len", False),
                diverse_beam_groups=n_groups,
            )
        if n_groups:
            strength = getattr(self.args, "diverse_beam_strength", DEFAULT_STRENGTH)
            self.rule.diverse_beam_strength = float(strength)
            self.rule.cumulative_diversity = is_diversity_cumulative()
        if self.rule.match_source_len:
            self.rule.counts_source_end = counts_source_end()
        self._open_glossary()

    def _open_glossary(self) -> None:
        """Open ``--glossary``, and check the options of constraints.

        Raises:
            ValueError: for a file that cannot be read, terms that are not valid, sources that are
                not tokens, and rules with which constraints are not possible.
        """
        kind, path = getattr(self.args, "constraints", None), self.options.glossary
        self._check_constraints(kind)
        if path is None:
            return
        if kind == "ordered":
            raise ValueError(
                f"--glossary {path}: its terms have no order; use {CONSTRAINTS} unordered"
            )
        self._check_constraints(path, f"--glossary {path}")
        if self.source_dictionary is None:
            raise ValueError(
                f"--glossary {path}: the model's sources are not tokens of a dictionary; remove it"
            )
        self.glossary = GlossaryFile(path, self.source_dictionary, self.dictionary)

    def _check_constraints(self, constraints: Any, flag: str = CONSTRAINTS) -> None:
        """
        Args:
            flag: what they were given as.

        Raises:
            ValueError: for constraints with samples, or rules that compare candidates by score.
        """
        rule = self.rule
        is_other = self.draws is not None or rule.is_papers or rule.match_source_len
        is_other |= rule.prune_threshold < math.inf or rule.diverse_beam_groups > 0
        if constraints and is_other:
            raise ValueError(
                f"{flag}: not possible with --decoding {self.name}; use beam, without "
                f"--sampling, {MATCH_SOURCE_LEN}, {DIVERSE_BEAM_GROUPS}, --prune-threshold and "
                "--finalize paper"
            )

    def search_options(self) -> SearchOptions:
        draws = {} if self.draws is None else self.draws.options()
        # The compiled search has this from the rules.
        rule = {name: value for name, value in vars(self.rule).items() if name != "lenpen"}
        return SearchOptions("beam", {**rule, **draws})

    def run(self, request: Request) -> Iterable[Result]:
        results = super().run(request)
        if request.prefix is None or self.rule.is_papers:
            return results
        return self._copied(results, request.prefix.tolist(), self.limits(request).max_lens)

    def _copied(
        self, results: Iterable[Result], prefix: list[list[int]], max_lens: np.ndarray
    ) -> Iterator[Result]:
        """If the prefix contains EOS, fairseq returns k copies of the hypothesis."""
        for result in results:
            if self.eos in prefix[result.id][: max_lens[result.id]]:
                (best, *_), k = result.hypotheses, self.rule.beam
                copies = [{name: part.clone() for name, part in best.items()} for _ in range(k)]
                result = result._replace(hypotheses=copies)
            yield result

    def prepare_request(self, request: Request) -> None:
        if self.glossary is not None:
            of_terms = self.glossary.constraints_of(request.sources.content.tolist())
            if any(of_terms):
                request.constraints = [
                    [*phrases, *(phrase for phrase in own if phrase not in phrases)]
                    for phrases, own in zip(request.constraints or repeat([]), of_terms)
                ]
        self._check_constraints(request.constraints)
        if request.constraints is not None:
            n_forced, max_lens = request.n_forced(self.rules.pad), self.limits(request).max_lens
            for own in zip(request.constraints, n_forced.tolist(), max_lens.tolist()):
                check_constraints(*own)
        if self.draws is not None:
            request.random_states = np.array(self.draws.states(request.ids), dtype=np.uint64)

    def translate(self, request: Request) -> Iterator[Result]:
        if self.draws is not None:
            self.draws.begin(request.ids)
        beams = self._beams(request)
        batch = BeamBatch(self.network, self.rules, self.rule, self.draws, self.statistics)
        for beam in self.decode(batch, beams, request):
            hypotheses = results_of(beam, self.rules, request.device)
            yield Result(beam.number, hypotheses, beam.steps, beam.expansions)

    def decode(self, batch: BeamBatch, beams: list[Beam], request: Request) -> Iterable[Beam]:
        """Expand beams, and yield each sentence's beam when it is done."""
        batch.admit(beams, request.sources.net_input, request.device)
        while batch.beams:
            yield from batch.expand(batch.beams, request.bos)

    def _beams(self, request: Request) -> list[Beam]:
        """The beam of each sentence."""
        max_lens, waived = (limits.tolist() for limits in self.limits(request))
        allowed = self.allowed_types(request) or repeat(None)
        forced: list[list[int]] = [[]] * request.n
        if request.prefix is not None:
            n_forced = np.minimum(request.n_forced(self.rules.pad), max_lens)
            forced = [own[:n] for own, n in zip(request.prefix.tolist(), n_forced)]
        limits = zip(max_lens, forced, waived, allowed)
        beams = [Beam(number, *own) for number, own in enumerate(limits)]
        for beam, phrases in zip(beams, request.constraints or ()):
            if phrases:
                beam.growing[0].progress = ConstraintState.begin(phrases, request.ordered)
        if self.rule.match_source_len:
            for beam, length in zip(beams, request.sources.lengths.tolist()):
                beam.length_of_source = length - (not self.rule.counts_source_end)
        for beam, forbidden in zip(beams, request.forbidden or ()):
            beam.forbidden = forbidden
        return beams
