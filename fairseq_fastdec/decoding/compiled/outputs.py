"""Methods with one hypothesis per sentence, in compiled code."""

from itertools import islice
from typing import Any, Optional

import torch
from torch import Tensor

from ...engine.kernels import loading
from ...engine.searches import outputs_of
from ..constraints import prefix_lengths
from ..hypothesis import Hypotheses, hypothesis
from ..sources import Sources
from ..statistics import INVOCATIONS, SentenceRecord, Statistics
from .search import CompiledSearch


class CompiledOutputs(CompiledSearch):
    """The compiled search of a method that keeps one hypothesis per sentence."""

    def translate(
        self,
        sources: Sources,
        ids: list[int],
        bos: int,
        prefix: Optional[Tensor],
        statistics: Statistics,
        horizons: Optional[Tensor] = None,
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        """See :meth:`~..generator.DecodingGenerator.translate`.

        Args:
            statistics: updated with the search's counters.
            horizons: the number of tokens of each sentence that Jacobi decoding solves in blocks,
                int64 ``[B]`` (default: all).

        Raises:
            ValueError: for padding before or inside a prefix.
        """
        max_len = self._rules.max_len(sources.width)
        forced = None
        if prefix is not None and prefix.size(1):
            prefix_lengths(prefix, self._rules.pad)
            forced = prefix.numpy()
        drafts = None if sources.drafts is None else [draft.numpy() for draft in sources.drafts]
        with self.search_for(sources.width, max_len + 1) as search:
            before = search.counts
            search.admit(
                first_id=0,
                bos=bos,
                max_len=max_len,
                horizons=None if horizons is None else horizons.numpy(),
                drafts=drafts,
                **self.arguments(sources, forced),
            )
            search.advance(loading.library().ALL_STEPS, loading.n_threads())
        self._count(before, search.counts, statistics)
        return self._results(search.finished(), sources, ids)

    def _count(self, before: Any, now: Any, statistics: Statistics) -> None:
        """Add the increase of the counters since ``before``."""
        statistics.count(before, now, (*INVOCATIONS, "drafted", "drafted_right"))
        n_others = self._options.n_heads - 1
        if n_others:
            pairs = zip(now.accepted, before.accepted)
            verified = [now.verified - before.verified] * n_others
            statistics.count_heads(verified, [new - old for new, old in pairs])

    def _results(
        self, finished: Any, sources: Sources, ids: list[int]
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        blocks = iter(finished.blocks)
        n_source = sources.lengths.tolist()
        hypotheses: Hypotheses = [[] for _ in ids]
        records: list[Any] = [None] * len(ids)
        outputs = outputs_of(finished.outputs)
        rows = zip(finished.ids, outputs, finished.invocations, finished.n_blocks)
        for number, (tokens, scores), invocations, n_blocks in rows:
            score = self._rules.score(scores.tolist())
            own = hypothesis(torch.from_numpy(tokens), score, torch.from_numpy(scores))
            hypotheses[number] = [own]
            counts = (n_source[number], len(tokens), invocations)
            kept = list(islice(blocks, n_blocks))
            own_blocks = kept if self._options.records_blocks else []
            records[number] = SentenceRecord(ids[number], *counts, own_blocks)
        return hypotheses, records
