"""Beam search batch by batch, with beams of fixed or variable width."""

import math
from functools import cached_property
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...errors import flag_of
from ..base import DecodingGenerator
from ..constraints import prefix_lengths
from ..generation_options import SAMPLING_FLAGS
from ..hypothesis import Hypotheses
from ..options import given
from ..sources import Sources
from ..statistics import BeamRecord, SentenceRecord
from .compiled_search import CompiledBeamSearch
from .request import Result, Sentences
from .sampling import Sampling
from .schedule import AllAtOnce, Schedule
from .search import BeamSearch, Heuristics


class BeamGenerator(DecodingGenerator):
    """Fixed width: with its defaults the hypotheses and scores of fairseq's own beam search.

    As there, how long a translation may become follows from the width of its batch (--max-len-a).
    """

    honours = DecodingGenerator.honours | SAMPLING_FLAGS

    default_threshold = math.inf
    default_max_candidates: Optional[int] = None
    default_finalize = "fairseq"

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        options = self.options
        # fairseq's limit: padding is never chosen.
        width = min(self.beam, len(self.dictionary) - 1)
        sampling = Sampling.from_args(self.args)
        if sampling is None:
            self.heuristics = Heuristics(
                width,
                threshold=given(options.prune_threshold, self.default_threshold),
                per_entry=given(options.max_candidates, self.default_max_candidates),
                finalize=str(given(options.finalize, self.default_finalize)),
            )
        else:
            self._check_samples()
            # Samples do not compete.
            self.heuristics = Heuristics(width, math.inf, None, "fairseq", sampling)
        self._searches: List[BeamSearch] = []

    def _check_samples(self) -> None:
        for name in ("prune_threshold", "max_candidates", "finalize"):
            value = getattr(self.options, name)
            if value is not None:
                raise ValueError(
                    f"{flag_of(name)} {value}: means nothing with --sampling, whose samples do "
                    "not compete; remove one of them"
                )

    def schedule(self, source_tokens: List[int]) -> Schedule:
        """A schedule for sentences of so many source tokens each."""
        return AllAtOnce(len(source_tokens))

    @cached_property
    def _compiled_search(self) -> Optional[CompiledBeamSearch]:
        return CompiledBeamSearch.of(self.session, self.rules, self.heuristics)

    def max_lens(self, sources: Sources) -> List[int]:
        """The longest translation of each sentence, in tokens without EOS."""
        return [self.rules.max_len(sources.width)] * sources.n

    def shown(self, results: Iterator[Result], n_sentences: int) -> Iterator[Result]:
        """The results as they come; a method with long batches shows their progress here."""
        return results

    def waived(self, prefix: Tensor, n_forced: np.ndarray) -> np.ndarray:
        """The number of first steps for which --min-len is waived: int64 ``[B]``."""
        return np.full_like(n_forced, prefix.size(1))

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        source_tokens = sources.lengths.tolist()
        sentences = self._sentences(sources, prefix)
        hypotheses: Hypotheses = [[] for _ in ids]
        records: List[SentenceRecord] = []
        schedule = self.schedule(source_tokens)
        results = self._compiled_results(sources, sentences, ids, bos, schedule)
        if results is None:
            results = self._results(sentences, ids, bos, schedule)
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
        if self.heuristics.finalize == "fairseq":
            self._repeat_what_is_given(hypotheses, sentences)
        return hypotheses, records

    def _compiled_results(
        self, sources: Sources, sentences: Sentences, ids: List[int], bos: int, schedule: Schedule
    ) -> Optional[Iterator[Result]]:
        """The results of the compiled search; ``None`` if it cannot decode this batch."""
        search = None if schedule.options is None else self._compiled_search
        if search is None or not search.takes(sources, sentences):
            return None
        return search.results(sources, sentences, ids, bos, schedule.options, self.statistics)

    def _results(
        self, sentences: Sentences, ids: List[int], bos: int, schedule: Schedule
    ) -> Iterator[Result]:
        """The results of a search that is driven from here."""
        self.session.reset(int(sentences.max_len.max()) + 1)
        search = self._search_on(sentences.prefix.device)
        search.begin(ids)
        yield from _run(search, schedule, sentences, bos, self.rules.pad)
        # Nothing is under way, so the next batch can have it.
        self._searches.append(search)
        self.statistics.refills += schedule.refills

    def _search_on(self, device: torch.device) -> BeamSearch:
        """A search with nothing under way: that of the last batch, unless an error ended it."""
        search = self._searches.pop() if self._searches else None
        if search is not None and search.device == device:
            return search
        return BeamSearch(self.session, self.rules, self.statistics, self.heuristics, device)

    def _sentences(self, sources: Sources, prefix: Optional[Tensor]) -> Sentences:
        max_len = np.array(self.max_lens(sources))
        n_forced = np.zeros_like(max_len)
        if prefix is None:
            prefix = sources.lengths.new_zeros(sources.n, 0)
        else:
            given = prefix_lengths(prefix, self.rules.pad).cpu().numpy()
            n_forced = np.minimum(given, max_len)
        return Sentences(
            numbers=list(range(sources.n)),
            net_input=sources.net_input,
            max_len=max_len,
            n_forced=n_forced,
            n_waived=np.minimum(self.waived(prefix, n_forced), max_len),
            prefix=prefix,
        )

    def _repeat_what_is_given(self, hypotheses: Hypotheses, sentences: Sentences) -> None:
        """fairseq gives K copies of a translation that its prefix completes."""
        if not sentences.n_forced.any():
            return
        given = np.arange(sentences.prefix.size(1))
        is_eos = sentences.prefix.eq(self.eos).cpu().numpy()
        forced_eos = is_eos & (given < sentences.n_forced[:, None])
        for number in forced_eos.any(axis=1).nonzero()[0].tolist():
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

    def waived(self, prefix: Tensor, n_forced: np.ndarray) -> np.ndarray:
        return n_forced


def _run(
    search: BeamSearch, schedule: Schedule, sentences: Sentences, bos: int, pad: int
) -> Iterator[Result]:
    """Decode by Algorithm 1 of Yang et al. 2020: refill, choose, expand, until none is left."""
    while True:
        due = schedule.due(search)
        if due:
            search.admit(sentences.take(due, pad), bos)
        if not search.n_sentences:
            return
        search.focus(schedule.choose(search))
        yield from search.step()
