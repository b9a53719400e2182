"""Batches that the compiled search decodes from sources to hypotheses."""

from itertools import islice
from types import ModuleType
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from ...engine import EnsembleSession
from ...engine.kernels.search import bounded, n_threads, search_module
from ...engine.models import CompiledModels
from ...engine.network.positions import POSITIONS
from ..constraints import GenerationRules, prefix_lengths
from ..hypothesis import Hypotheses, hypothesis
from ..sources import Sources, are_tokens
from ..statistics import INVOCATIONS, SentenceRecord, Statistics

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

    def search(self, module: ModuleType, **shared: Any) -> Any:
        """A search over the models of ``shared``; see ``_engine.block_search``."""
        return module.block_search(
            acceptance=module.Acceptance(**self.acceptance),
            proposals=module.Proposals(
                n_heads=self.n_heads,
                n_in_tree=self.n_in_tree,
                confidence=self.confidence,
                window=bounded(self.window),
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

    def search(self, module: ModuleType, **shared: Any) -> Any:
        """A search over the models of ``shared``; see ``_engine.jacobi_search``."""
        return module.jacobi_search(
            block_size=bounded(self.block_size),
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

    @classmethod
    def of(
        cls, session: EnsembleSession, rules: GenerationRules, options: SearchOptions
    ) -> Optional["CompiledSearch"]:
        """``None`` where the search cannot be compiled, whatever the sources."""
        if search_module() is None or session.has_shortlist:
            return None
        search = cls(session, rules, options)
        search._models.follow(POSITIONS, POSITIONS)
        return None if search._models.models is None else search

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
        if self._models.follow(sources.width, max_len + 1):
            self._search = None
        if self._models.models is None:
            return None
        forced = None
        if prefix is not None and prefix.size(1):
            prefix_lengths(prefix, self._rules.pad)
            forced = prefix.numpy()
        ends = None if horizons is None else horizons.numpy()
        # A search that an error ends is not used again: sentences would be under way.
        search, self._search = self._search or self._new_search(), None
        before = search.counts
        search.admit(sources.content.numpy(), 0, bos, max_len, forced, ends)
        search.advance(search_module().ALL_STEPS, n_threads())
        self._search = search
        self._count(before, search.counts, statistics)
        return self._results(search.finished(), sources, ids)

    def _new_search(self) -> Any:
        module = search_module()
        return self._options.search(
            module,
            models=self._models.models,
            rules=self._rules.compiled(self._session.temperature),
            # fairseq's batches are decoded as a whole.
            capacity=module.ALL_STEPS,
        )

    def _count(self, before: Any, now: Any, statistics: Statistics) -> None:
        """Add what a search has counted since ``before``."""
        statistics.count(before, now, INVOCATIONS)
        n_others = self._options.n_heads - 1
        if n_others:
            pairs = zip(now.accepted, before.accepted)
            verified = [now.verified - before.verified] * n_others
            statistics.count_heads(verified, [new - old for new, old in pairs])

    def _results(
        self, finished: Any, sources: Sources, ids: List[int]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        outputs, blocks = finished.outputs, iter(finished.blocks)
        tokens = torch.from_numpy(outputs.tokens).split(outputs.lengths)
        scores = torch.from_numpy(outputs.scores).split(outputs.lengths)
        n_source = sources.lengths.tolist()
        hypotheses: Hypotheses = [[] for _ in ids]
        records: List[Any] = [None] * len(ids)
        rows = zip(finished.ids, tokens, scores, finished.invocations, finished.n_blocks)
        for number, own_tokens, own_scores, invocations, n_blocks in rows:
            score = self._rules.sentence_score(own_scores)
            hypotheses[number] = [hypothesis(own_tokens, score, own_scores)]
            counts = (n_source[number], own_tokens.numel(), invocations)
            kept = list(islice(blocks, n_blocks))
            own_blocks = kept if self._options.records_blocks else []
            records[number] = SentenceRecord(ids[number], *counts, own_blocks)
        return hypotheses, records
