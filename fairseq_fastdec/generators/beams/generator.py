"""Beam search batch by batch, with beams of fixed or variable width."""

import math
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..base import DecodingGenerator
from ..constraints import prefix_lengths
from ..hypothesis import Hypotheses
from ..options import given
from ..sources import Sources
from ..statistics import BeamRecord, SentenceRecord
from .request import Result, Sentences
from .schedule import AllAtOnce, Schedule
from .search import BeamSearch, Heuristics


class BeamGenerator(DecodingGenerator):
    """Fixed width: with its defaults the hypotheses and scores of fairseq's own beam search.

    As there, how long a translation may become follows from the width of its batch (--max-len-a).
    """

    default_threshold = math.inf
    default_max_candidates: Optional[int] = None
    default_finalize = "fairseq"

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options = self.options
        self.heuristics = Heuristics(
            # fairseq's limit: padding is never chosen.
            width=min(self.beam, len(self.dictionary) - 1),
            threshold=given(options.prune_threshold, self.default_threshold),
            per_entry=given(options.max_candidates, self.default_max_candidates),
            finalize=str(given(options.finalize, self.default_finalize)),
        )

    def schedule(self, source_tokens: List[int]) -> Schedule:
        """A schedule for sentences of so many source tokens each."""
        return AllAtOnce(len(source_tokens))

    def max_lens(self, sources: Sources) -> List[int]:
        """The longest translation of each sentence, in tokens without EOS."""
        return [self.rules.max_len(sources.width)] * sources.n

    def shown(self, results: Iterator[Result], n_sentences: int) -> Iterator[Result]:
        """The results as they come; a method with long batches shows their progress here."""
        return results

    def waived(self, prefix: Tensor, n_forced: Tensor) -> Tensor:
        """The number of first steps for which --min-len is waived: int64 ``[B]``."""
        return torch.full_like(n_forced, prefix.size(1))

    def translate(
        self, sample: Dict[str, Any], ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        sources = Sources.of(sample, self.rules.pad)
        source_tokens = sources.lengths.tolist()
        sentences = self._sentences(sample["net_input"], sources, prefix)
        schedule = self.schedule(source_tokens)
        self.session.reset(int(sentences.max_len.max()) + 1)
        search = BeamSearch(
            self.session, self.rules, self.statistics, self.heuristics, sentences.max_len.device
        )
        hypotheses: Hypotheses = [[] for _ in ids]
        records: List[SentenceRecord] = []
        results = _run(search, schedule, sentences, bos, self.rules.pad)
        for result in self.shown(results, len(ids)):
            hypotheses[result.number] = result.hypotheses
            records.append(
                BeamRecord(
                    ids[result.number],
                    source_tokens[result.number],
                    tokens=result.hypotheses[0]["tokens"].numel(),
                    invocations=result.steps,
                    blocks=[],
                    expansions=result.expansions,
                )
            )
        self.statistics.refills += schedule.refills
        if self.heuristics.finalize == "fairseq":
            self._repeat_what_is_given(hypotheses, sentences)
        return hypotheses, records

    def _sentences(
        self, net_input: Dict[str, Any], sources: Sources, prefix: Optional[Tensor]
    ) -> Sentences:
        max_len = torch.tensor(self.max_lens(sources), device=sources.device)
        if prefix is None:
            prefix = max_len.new_zeros(sources.n, 0)
        n_forced = torch.minimum(prefix_lengths(prefix, self.rules.pad), max_len)
        return Sentences(
            numbers=list(range(sources.n)),
            net_input=net_input,
            max_len=max_len,
            prefix=prefix,
            n_forced=n_forced,
            n_waived=torch.minimum(self.waived(prefix, n_forced), max_len),
        )

    def _repeat_what_is_given(self, hypotheses: Hypotheses, sentences: Sentences) -> None:
        """fairseq gives K copies of a translation that its prefix completes."""
        given = torch.arange(sentences.prefix.size(1), device=sentences.prefix.device)
        forced_eos = sentences.prefix.eq(self.eos) & (given < sentences.n_forced[:, None])
        for number in forced_eos.any(dim=1).nonzero().squeeze(1).tolist():
            only = hypotheses[number][0]
            hypotheses[number] = [
                {name: value.clone() for name, value in only.items()}
                for _ in range(self.heuristics.width)
            ]


class VariableBeamGenerator(BeamGenerator):
    """VAR-BATCH of Yang et al. 2020, section 3: beams that are as wide as the candidates are good.

    A translation does not depend on its batch: its own source length limits it.
    """

    default_threshold = 1.5
    default_max_candidates = 5
    default_finalize = "paper"

    def max_lens(self, sources: Sources) -> List[int]:
        return [self.rules.max_len(length) for length in sources.lengths.tolist()]

    def waived(self, prefix: Tensor, n_forced: Tensor) -> Tensor:
        return n_forced


def _run(
    search: BeamSearch, schedule: Schedule, sentences: Sentences, bos: int, pad: int
) -> Iterator[Result]:
    """Decode by Algorithm 1 of Yang et al. 2020: refill, choose, expand, until none is left."""
    while True:
        due = schedule.due(search.numbers, search.widths)
        if due:
            search.admit(sentences.take(due, pad), bos)
        if not search.numbers.size:
            return
        search.focus(schedule.choose(search.lengths, search.widths))
        yield from search.step()
