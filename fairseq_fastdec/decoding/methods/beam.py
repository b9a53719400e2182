"""Beam search of fixed width, as in fairseq (Yang et al. 2020, section 2)."""

import math
from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.searches import BeamOptions
from ...processes.errors import flag_of
from ...translating.generation_options import SAMPLING_FLAGS
from ..compiled.beams import BeamResult, CompiledBeams, SentenceLimits, in_order
from ..constraints import prefix_lengths
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
        limits = self.limits(sources, ids, prefix)
        results = self.compiled_results(sources, limits, bos)
        return in_order(self._copied(results, limits), sources, ids)

    def translate(
        self, sources: Sources, ids: list[int], bos: int, prefix: Optional[Tensor]
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        given = (self.network, self.rules, self.rule, self.statistics)
        if self.rule.draws is not None:
            self.rule.draws.begin(ids)
        limits = self.limits(sources, ids, prefix)
        beams = self._beams(limits, self.allowed_types(sources, prefix))
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
        return in_order(self._copied(results, limits), sources, ids)

    def compiled_results(
        self, sources: Sources, limits: SentenceLimits, bos: int
    ) -> Iterator[BeamResult]:
        """The results of the compiled search, in any order."""
        return self.search.results(sources, limits, bos, self.statistics)

    def _copied(
        self, results: Iterator[BeamResult], limits: SentenceLimits
    ) -> Iterator[BeamResult]:
        """If the prefix contains EOS, fairseq returns k copies of the hypothesis."""
        for number, found, steps, expansions in results:
            if self.eos in limits.forced(number) and not self.rule.waits:
                best, k = found[0].items(), self.rule.width
                found = [{name: tensor.clone() for name, tensor in best} for _ in range(k)]
            yield BeamResult(number, found, steps, expansions)

    def limits(self, sources: Sources, ids: list[int], prefix: Optional[Tensor]) -> SentenceLimits:
        """The limits of the output of each sentence.

        Raises:
            ValueError: for padding before or inside a prefix.
        """
        max_lens = np.array(self.max_lens(sources))
        n_forced, width = np.zeros_like(max_lens), 0
        if prefix is not None:
            n_forced = np.minimum(prefix_lengths(prefix, self.rules.pad).cpu().numpy(), max_lens)
            width = prefix.size(1)
        draws = self.rule.draws
        return SentenceLimits(
            max_lens=max_lens,
            waived=np.minimum(self.n_waived(width, n_forced), max_lens),
            prefix=None if prefix is None or not width else prefix.cpu().numpy(),
            n_forced=n_forced,
            random_states=None if draws is None else np.array(draws.states(ids), dtype=np.uint64),
        )

    def decode(
        self, batch: BeamBatch, beams: list[Beam], sources: Sources, bos: int
    ) -> Iterator[Beam]:
        """Expand beams, and yield each sentence's beam when it is done."""
        batch.admit(beams, sources.net_input, sources.device)
        while batch.beams:
            yield from batch.expand(batch.beams, bos)

    def _beams(self, limits: SentenceLimits, allowed: Optional[list[np.ndarray]]) -> list[Beam]:
        """The beam of each sentence.

        Args:
            allowed: the target types that a shortlist allows; ``None`` for all.
        """
        return [
            Beam(
                number,
                max_len,
                limits.forced(number),
                int(limits.waived[number]),
                None if allowed is None else allowed[number],
            )
            for number, max_len in enumerate(limits.max_lens.tolist())
        ]

    def max_lens(self, sources: Sources) -> list[int]:
        """The maximum length of each translation; in fairseq, the same for the whole batch."""
        return [self.rules.max_len(sources.width)] * sources.n

    def n_waived(self, width: int, n_forced: np.ndarray) -> np.ndarray:
        """The number of first tokens without --min-len; in fairseq, the width of all prefixes.

        Args:
            width: of all prefixes; n_forced: the length of each sentence's prefix, int64 ``[B]``.
        """
        return np.full_like(n_forced, width)
