"""Beam search of fixed width, as in fairseq (Yang et al. 2020, section 2)."""

import math
from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.searches import BeamOptions
from ...errors import flag_of
from ..compiled.beams import BeamResult, CompiledBeams, SentenceLimits, in_order
from ..constraints import prefix_lengths
from ..generation_options import SAMPLING_FLAGS
from ..generator import DecodingGenerator
from ..hypothesis import Hypotheses
from ..option_rules import given
from ..sources import Sources
from ..statistics import SentenceRecord
from .beam_batch import BeamBatch
from .beams import Beam, BeamRule, results_of
from .sampling import Draws


class FixedBeam(DecodingGenerator):
    """Expands the k best candidates of each sentence of a batch in each step.

    By default, hypotheses and scores are those of fairseq's ``SequenceGenerator``.
    """

    search_class = CompiledBeams
    honours = DecodingGenerator.honours | SAMPLING_FLAGS
    default_threshold = math.inf
    default_max_candidates: Optional[int] = None
    default_finalize = "fairseq"

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options, draws = self.options, Draws.from_args(self.args)
        for name in ("prune_threshold", "max_candidates", "finalize"):
            value = getattr(options, name)
            if draws is not None and value is not None:
                raise ValueError(
                    f"{flag_of(name)} {value}: has no effect with --sampling, whose samples do not "
                    "compete; remove one of them"
                )
        if draws is not None:
            self.rule = BeamRule(self.beam, math.inf, None, waits=False, draws=draws)
            return
        finalize = str(given(options.finalize, self.default_finalize))
        self.rule = BeamRule(
            self.beam,
            threshold=given(options.prune_threshold, self.default_threshold),
            per_candidate=given(options.max_candidates, self.default_max_candidates),
            waits=finalize == "paper",
        )

    def search_options(self) -> BeamOptions:
        rule = self.rule
        draws = None if rule.draws is None else (rule.draws.topk, rule.draws.topp)
        return BeamOptions(rule.width, rule.threshold, rule.per_candidate, rule.waits, draws)

    def translate_compiled(
        self, sources: Sources, ids: list[int], bos: int, prefix: Optional[Tensor]
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        beams = self.beams_of(sources, prefix)
        results = self.compiled_results(sources, self._limits(beams, ids, prefix), bos)
        return in_order(self._copied(results, beams), sources, ids)

    def translate(
        self, sources: Sources, ids: list[int], bos: int, prefix: Optional[Tensor]
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        given = (self.network, self.rules, self.rule, self.statistics)
        if self.rule.draws is not None:
            self.rule.draws.begin(ids)
        beams = self.beams_of(sources, prefix)
        done = self.decode(BeamBatch(*given), beams, sources, bos)
        results = (
            BeamResult(
                beam.number,
                results_of(beam, self.rules, sources.device),
                beam.steps,
                beam.expansions,
            )
            for beam in done
        )
        return in_order(self._copied(results, beams), sources, ids)

    def compiled_results(
        self, sources: Sources, limits: SentenceLimits, bos: int
    ) -> Iterator[BeamResult]:
        """The results of the compiled search, in any order."""
        return self.search.results(sources, limits, bos, self.statistics)

    def _copied(self, results: Iterator[BeamResult], beams: list[Beam]) -> Iterator[BeamResult]:
        """If the prefix contains EOS, fairseq returns k copies of the hypothesis."""
        for number, found, steps, expansions in results:
            if self.eos in beams[number].forced and not self.rule.waits:
                best, k = found[0].items(), self.rule.width
                found = [{name: tensor.clone() for name, tensor in best} for _ in range(k)]
            yield BeamResult(number, found, steps, expansions)

    def _limits(
        self, beams: list[Beam], ids: list[int], prefix: Optional[Tensor]
    ) -> SentenceLimits:
        """Limits of each sentence for the compiled search."""
        draws = self.rule.draws
        return SentenceLimits(
            max_lens=np.array([beam.max_len for beam in beams]),
            waived=np.array([beam.n_waived for beam in beams]),
            prefix=None if prefix is None or not prefix.size(1) else prefix.numpy(),
            random_states=None if draws is None else np.array(draws.states(ids), dtype=np.uint64),
        )

    def decode(
        self, batch: BeamBatch, beams: list[Beam], sources: Sources, bos: int
    ) -> Iterator[Beam]:
        """Expand beams, and yield each sentence's beam when it is done."""
        batch.admit(beams, sources.net_input, sources.device)
        while batch.beams:
            yield from batch.expand(batch.beams, bos)

    def beams_of(self, sources: Sources, prefix: Optional[Tensor]) -> list[Beam]:
        """Create a beam for each source, with its length limits and prefix."""
        if prefix is None:
            prefix = sources.lengths.new_zeros(sources.n, 0)
        prefix_lengths(prefix, self.rules.pad)
        allowed = self.allowed_types(sources, prefix)
        beams = []
        for number, max_len in enumerate(self.max_lens(sources)):
            row = prefix[number].tolist()[:max_len]
            forced = [token for token in row if token != self.rules.pad]
            n_waived = min(self.n_waived(prefix.size(1), len(forced)), max_len)
            types = None if allowed is None else allowed[number]
            beams.append(Beam(number, max_len, forced, n_waived, types))
        return beams

    def max_lens(self, sources: Sources) -> list[int]:
        """The maximum length of each translation; in fairseq, the same for the whole batch."""
        return [self.rules.max_len(sources.width)] * sources.n

    def n_waived(self, width: int, n_forced: int) -> int:
        """The number of first tokens without --min-len; in fairseq, the width of all prefixes.

        Args:
            width: of all prefixes; n_forced: the length of the sentence's prefix.
        """
        return width
