"""Batches that the compiled search decodes from sources to hypotheses."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ...engine import EnsembleSession
from ...engine.kernels.search import address_of_threads, n_threads, search_module
from ...engine.models import CompiledModels
from ...engine.network.positions import POSITIONS
from ..constraints import GenerationRules, prefix_lengths
from ..hypothesis import Hypotheses, hypothesis
from ..sources import Sources, are_tokens
from ..statistics import SentenceRecord, Statistics


class SearchOptions(NamedTuple):
    """The options in which the methods of the compiled search differ.

    Attributes:
        n_heads: the number of heads that propose, p_1 among them; 1 for greedy decoding.
        n_in_tree: the most proposals of a tree; 0 for chains.
        confidence: see ``--proposal-confidence``.
        acceptance: the arguments of ``_engine.Acceptance``.
        records_blocks: whether the statistics have the tokens that were kept at once.
    """

    n_heads: int = 1
    n_in_tree: int = 0
    confidence: float = 0.0
    acceptance: Dict[str, Any] = {}
    records_blocks: bool = True


class CompiledSearch:
    """The compiled search over the models of one session. For one thread at a time."""

    def __init__(
        self, session: EnsembleSession, rules: GenerationRules, options: SearchOptions
    ) -> None:
        self._session, self._rules, self._options = session, rules, options
        self._models = CompiledModels(session.members, options.n_heads)
        self._search: Any = None
        self._counted = 0, 0, 0
        self._verified: Tuple[int, List[int]] = (0, [])

    @classmethod
    def of(
        cls, session: EnsembleSession, rules: GenerationRules, options: SearchOptions
    ) -> Optional["CompiledSearch"]:
        """``None`` where the search cannot be compiled, whatever the sources."""
        can_propose = options.n_heads == 1 or len(session.members) == 1
        if search_module() is None or session.has_shortlist or not can_propose:
            return None
        search = cls(session, rules, options)
        return search if search._prepare(POSITIONS, POSITIONS) else None

    def translate(
        self,
        sources: Sources,
        ids: List[int],
        bos: int,
        prefix: Optional[Tensor],
        statistics: Statistics,
    ) -> Optional[Tuple[Hypotheses, List[SentenceRecord]]]:
        """As :meth:`~..base.DecodingGenerator.translate`; ``None`` for sources that are no tokens.

        Raises:
            ValueError: for padding before or inside a prefix.
        """
        if not are_tokens(sources.content):
            return None
        max_len = self._rules.max_len(sources.width)
        if not self._prepare(sources.width, max_len + 1):
            return None
        forced = None
        if prefix is not None and prefix.size(1):
            prefix_lengths(prefix, self._rules.pad)
            forced = prefix.numpy()
        search = self._search
        search.admit(sources.content.numpy(), 0, bos, max_len, forced)
        search.advance(search_module().ALL_STEPS, n_threads())
        self._count(statistics)
        return self._results(search.finished(), sources, ids)

    def _prepare(self, n_source: int, n_target: int) -> bool:
        """Follow the models' parameters, and reach so many positions; whether that is possible."""
        are_new = self._models.follow(n_source, n_target)
        if self._models.models is None:
            return False
        if are_new:
            self._search = self._search_of(self._models.models)
            self._counted = 0, 0, 0
            self._verified = 0, [0] * (self._options.n_heads - 1)
        return True

    def _search_of(self, models: List[Any]) -> Any:
        module, options = search_module(), self._options
        return module.BlockSearch(
            models=models,
            rules=self._rules.compiled(self._session.temperature),
            acceptance=module.Acceptance(**options.acceptance),
            proposals=module.Proposals(options.n_heads, options.n_in_tree, options.confidence),
            # fairseq's batches are decoded as a whole.
            capacity=module.ALL_STEPS,
            threads=address_of_threads(),
        )

    def _count(self, statistics: Statistics) -> None:
        counts = self._search.counts
        now = (counts.encoder_invocations, counts.decoder_invocations, counts.row_invocations)
        encoder, decoder, rows = (new - old for new, old in zip(now, self._counted))
        self._counted = now
        if self._options.n_heads > 1:
            n_heads = self._options.n_heads - 1
            verified, accepted = counts.verified, counts.accepted[:n_heads]
            old_verified, old_accepted = self._verified
            statistics.count_heads(
                [verified - old_verified] * n_heads,
                [new - old for new, old in zip(accepted, old_accepted)],
            )
            self._verified = verified, accepted
        statistics.encoder_invocations += encoder
        statistics.decoder_invocations += decoder
        statistics.row_invocations += rows

    def _results(
        self, finished: Any, sources: Sources, ids: List[int]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        lengths = finished.lengths
        tokens = torch.from_numpy(finished.tokens).split(lengths)
        scores = torch.from_numpy(finished.scores).split(lengths)
        blocks = np.split(np.array(finished.blocks), np.cumsum(finished.n_blocks)[:-1])
        n_source = sources.lengths.tolist()
        hypotheses: Hypotheses = [[] for _ in ids]
        records: List[Any] = [None] * len(ids)
        rows = zip(finished.ids, tokens, scores, finished.invocations, blocks)
        for number, own_tokens, own_scores, invocations, own_blocks in rows:
            score = self._rules.sentence_score(own_scores)
            hypotheses[number] = [hypothesis(own_tokens, score, own_scores)]
            counts = (n_source[number], own_tokens.numel(), invocations)
            kept = own_blocks.tolist() if self._options.records_blocks else []
            records[number] = SentenceRecord(ids[number], *counts, kept)
        return hypotheses, records
