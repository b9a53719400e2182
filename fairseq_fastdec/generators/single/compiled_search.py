"""Batches that the compiled search decodes from sources to hypotheses."""

from types import ModuleType
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from ...engine import EnsembleSession
from ...engine.kernels.search import n_threads, search_module
from ...engine.models import CompiledModels
from ...engine.network.positions import POSITIONS
from ..constraints import GenerationRules, prefix_lengths
from ..hypothesis import Hypotheses, hypothesis
from ..sources import Sources, are_tokens
from ..statistics import SentenceRecord, Statistics

Arguments = Dict[str, Any]


class BlockOptions(NamedTuple):
    """Greedy decoding and blocks.

    Attributes:
        n_heads: the number of heads that propose, p_1 among them; 1 for none.
        n_in_tree: the most proposals of a tree; 0 for chains.
        confidence: see ``--proposal-confidence``.
        acceptance: the arguments of ``_engine.Acceptance``.
        window: the tokens of a block of drafts, the next one among them; 1 for none.
        drafts: the arguments of ``_engine.Drafts``.
        records_blocks: whether the statistics have the tokens that were kept at once.
    """

    n_heads: int = 1
    n_in_tree: int = 0
    confidence: float = 0.0
    acceptance: Arguments = {}
    window: int = 1
    drafts: Arguments = {}
    records_blocks: bool = True

    def search(self, module: ModuleType, max_len: int, **shared: Any) -> Any:
        """A search over the models of ``shared``; see ``_engine.block_search``."""
        return module.block_search(
            acceptance=module.Acceptance(**self.acceptance),
            proposals=module.Proposals(
                n_heads=self.n_heads,
                n_in_tree=self.n_in_tree,
                confidence=self.confidence,
                window=self.window,
                drafts=module.Drafts(**self.drafts),
            ),
            **shared,
        )


class JacobiOptions(NamedTuple):
    """Jacobi decoding.

    Attributes:
        block_size: the paper's b; ``None`` for the whole output.
        ends_inside_blocks, waits_behind_eos: see ``cpp/jacobi.h``.
        drafts: the arguments of ``_engine.Drafts``.
    """

    block_size: Optional[int]
    ends_inside_blocks: bool
    waits_behind_eos: bool
    drafts: Arguments

    n_heads = 1
    records_blocks = True

    def search(self, module: ModuleType, max_len: int, **shared: Any) -> Any:
        """A search over the models of ``shared``; see ``_engine.jacobi_search``."""
        longest = max_len + 1
        return module.jacobi_search(
            block_size=min(self.block_size or longest, longest),
            ends_inside_blocks=self.ends_inside_blocks,
            waits_behind_eos=self.waits_behind_eos,
            drafts=module.Drafts(**self.drafts),
            **shared,
        )


SearchOptions = Union[BlockOptions, JacobiOptions]


class CompiledSearch:
    """The compiled search over the models of one session. For one thread at a time."""

    def __init__(
        self, session: EnsembleSession, rules: GenerationRules, options: SearchOptions
    ) -> None:
        self._session, self._rules, self._options = session, rules, options
        self._models = CompiledModels(session.members, options.n_heads)
        self._search: Any = None
        self._max_len = -1

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
        horizons: Optional[Tensor] = None,
    ) -> Optional[Tuple[Hypotheses, List[SentenceRecord]]]:
        """As :meth:`~..base.DecodingGenerator.translate`; ``None`` for sources that are no tokens.

        Args:
            horizons: the tokens of each sentence that Jacobi decoding solves in blocks, int64
                ``[B]`` (default: all).

        Raises:
            ValueError: for padding before or inside a prefix.
        """
        if not are_tokens(sources.content):
            return None
        max_len = self._rules.max_len(sources.width)
        if not self._prepare(sources.width, max_len + 1):
            return None
        search = self._search_for(max_len)
        forced = None
        if prefix is not None and prefix.size(1):
            prefix_lengths(prefix, self._rules.pad)
            forced = prefix.numpy()
        ends = None if horizons is None else horizons.numpy()
        search.admit(sources.content.numpy(), 0, bos, max_len, forced, ends)
        search.advance(search_module().ALL_STEPS, n_threads())
        self._count(statistics)
        return self._results(search.finished(), sources, ids)

    def _prepare(self, n_source: int, n_target: int) -> bool:
        """Follow the models' parameters, and reach so many positions; whether that is possible."""
        are_new = self._models.follow(n_source, n_target)
        if self._models.models is None:
            return False
        if are_new:
            self._search = None
        return True

    def _search_for(self, max_len: int) -> Any:
        """The search for outputs of that length; Jacobi decoding's blocks depend on it."""
        longer = isinstance(self._options, JacobiOptions) and max_len != self._max_len
        if self._search is None or longer:
            self._search, self._max_len = self._new_search(max_len), max_len
            self._counted = 0, 0, 0
            self._verified = 0, [0] * (self._options.n_heads - 1)
        return self._search

    def _new_search(self, max_len: int) -> Any:
        module = search_module()
        return self._options.search(
            module,
            max_len,
            models=self._models.models,
            rules=self._rules.compiled(self._session.temperature),
            # fairseq's batches are decoded as a whole.
            capacity=module.ALL_STEPS,
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
