"""Batches and streams that the compiled search decodes from sources to hypotheses."""

from itertools import islice
from typing import Any, Iterator, List, Optional

import numpy as np
import torch

from ...engine import EnsembleSession
from ...engine.kernels.search import bounded, n_threads, search_module
from ...engine.models import CompiledModels
from ...engine.network.positions import POSITIONS
from ..constraints import GenerationRules
from ..hypothesis import Hypothesis, hypotheses_of
from ..sources import Sources, are_tokens
from ..statistics import INVOCATIONS, Statistics
from .finalization import FINALIZATIONS
from .request import Result, Sentences
from .schedule import ScheduleOptions
from .search import Heuristics

# After this many steps Python sees the results so far, and interrupts.
STEPS_AT_ONCE = 256


class CompiledBeamSearch:
    """The compiled beam search over the models of one session. For one thread at a time."""

    def __init__(
        self, session: EnsembleSession, rules: GenerationRules, heuristics: Heuristics
    ) -> None:
        self._session, self._rules, self._heuristics = session, rules, heuristics
        self._models = CompiledModels(session.members, n_heads=1)
        self._search: Any = None

    @classmethod
    def of(
        cls, session: EnsembleSession, rules: GenerationRules, heuristics: Heuristics
    ) -> Optional["CompiledBeamSearch"]:
        """``None`` if the search cannot be compiled, whatever the sources."""
        if search_module() is None:
            return None
        search = cls(session, rules, heuristics)
        search._models.follow(POSITIONS, POSITIONS)
        return None if search._models.models is None else search

    def takes(self, sources: Sources, sentences: Sentences) -> bool:
        """Follow the models' parameters; whether the search can decode with all models."""
        if self._models.follow(sources.width, int(sentences.max_len.max()) + 1):
            self._search = None
        return self._models.models is not None

    def results(
        self,
        sources: Sources,
        sentences: Sentences,
        ids: List[int],
        bos: int,
        schedule: ScheduleOptions,
        statistics: Statistics,
    ) -> Iterator[Result]:
        """Decode sentences for which :meth:`takes` was true; give results as they come.

        Args:
            ids: the sentences' numbers in the whole run, for sampling.
        """
        # A search that an error ends is not used again: sentences would be under way.
        search, self._search = self._search or self._new_search(), None
        before = search.counts
        search.set_schedule(_compiled(schedule))
        order = _order(schedule, sources)
        self._admit(search, sources, sentences, ids, bos, order)
        n_left = sources.n
        while n_left:
            n_left = search.advance(STEPS_AT_ONCE, n_threads())
            yield from self._finished(search)
        self._search = search
        _count(before, search.counts, statistics)

    def _new_search(self) -> Any:
        module, heuristics = search_module(), self._heuristics
        finalization = FINALIZATIONS[heuristics.finalize]
        return module.BeamSearch(
            models=self._models.models,
            rules=self._rules.compiled(self._session.temperature),
            options=module.BeamOptions(
                width=heuristics.width,
                threshold=heuristics.threshold,
                n_per_entry=bounded(heuristics.per_entry),
                lets_wait=finalization.lets_wait,
                sampling=self._compiled_sampling(),
            ),
        )

    def _compiled_sampling(self) -> Optional[Any]:
        sampling = self._heuristics.sampling
        return sampling and search_module().Sampling(sampling.topk, sampling.topp)

    def _admit(
        self,
        search: Any,
        sources: Sources,
        sentences: Sentences,
        ids: List[int],
        bos: int,
        order: np.ndarray,
    ) -> None:
        sampling = self._heuristics.sampling
        has_prefix = sentences.prefix.size(1) > 0
        tokens = sources.content.numpy()[order] if are_tokens(sources.content) else None
        shortlist, states = self._session.shortlist, self._models.states(sources.net_input)
        prefix = sentences.prefix.numpy()[order] if has_prefix else None
        search.admit(
            sources=tokens,
            ids=order,
            bos=bos,
            max_lens=sentences.max_len[order],
            waived=sentences.n_waived[order],
            prefix=prefix,
            random_states=None if sampling is None else sampling.random_states(ids)[order],
            types=None if shortlist is None else shortlist.types_of(tokens, prefix),
            states=states and [(own[order], lengths[order]) for own, lengths in states],
            n_source=sources.lengths.numpy()[order],
        )

    def _finished(self, search: Any) -> Iterator[Result]:
        finished = search.finished()
        outputs = finished.outputs
        lengths = torch.tensor(outputs.lengths)
        scores = self._rules.normalized(torch.from_numpy(finished.totals), lengths)
        tokens, own_scores = (torch.from_numpy(a) for a in (outputs.tokens, outputs.scores))
        hypotheses = iter(hypotheses_of(tokens, scores, own_scores, outputs.lengths))
        parts = (finished.ids, finished.n_hypotheses, finished.steps, finished.expansions)
        for number, n, steps, expansions in zip(*parts):
            own: List[Hypothesis] = sorted(islice(hypotheses, n), key=_score, reverse=True)
            yield Result(number, own, steps, expansions)


def _compiled(schedule: ScheduleOptions) -> Any:
    capacity = schedule.capacity
    return search_module().Schedule(
        sentences=bounded(capacity.sentences or 0),
        source_tokens=bounded(capacity.source_tokens or 0),
        rows=bounded(capacity.rows or 0),
        refill_threshold=schedule.refill_threshold,
        expands_shortest=schedule.policy == "min-length",
    )


def _order(schedule: ScheduleOptions, sources: Sources) -> np.ndarray:
    """The order in which sentences begin: int64 ``[B]``."""
    if not schedule.longest_first:
        return np.arange(sources.n)
    return sources.lengths.numpy().argsort(kind="stable")[::-1].copy()


def _score(hypothesis: Hypothesis) -> float:
    return hypothesis["score"].item()


def _count(before: Any, now: Any, statistics: Statistics) -> None:
    """Add what a search has counted since ``before``."""
    statistics.count(before, now, (*INVOCATIONS, "beam_steps", "waiting"))
    # The first sentences to begin are no refill.
    statistics.refills += now.encoder_invocations - before.encoder_invocations - 1
