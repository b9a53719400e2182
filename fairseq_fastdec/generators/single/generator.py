"""Generators that keep one hypothesis for each sentence: a search rule over a batch."""

from abc import abstractmethod
from functools import cached_property
from typing import Any, Dict, List, Optional, Sequence, Tuple

from torch import Tensor

from ..base import DecodingGenerator
from ..best_tokens import BestTokens
from ..hypothesis import Hypotheses
from ..sources import Sources
from ..statistics import SentenceRecord
from .batch import Batch, Observer
from .compiled_search import CompiledSearch, SearchOptions
from .drafts import DraftSource, compiled_drafts, draft_source

# So probable a path of sequential heads' tokens has to be to go on, unless options say otherwise.
DEFAULT_CONFIDENCE = 0.5


class SingleHypothesisGenerator(DecodingGenerator):
    """A generator that keeps one hypothesis for each sentence of a :class:`~.batch.Batch`.

    Subclasses hold a search rule, :meth:`decode`, and nothing else.
    """

    keeps_one_hypothesis = True
    promises_greedy_tokens = True
    accepts_blocks = True

    # Called with what every decoder invocation was given and answered, see :meth:`Batch.observe`.
    observer: Optional[Observer] = None
    # The cost of each sentence of the last batch, as --decoding-stats has it.
    records: Sequence[SentenceRecord] = ()

    @cached_property
    def _best_tokens(self) -> BestTokens:
        return BestTokens(self.session, self.rules)

    @property
    def proposal_confidence(self) -> float:
        """``--proposal-confidence``, where proposals are verified exactly."""
        given = self.options.proposal_confidence
        return DEFAULT_CONFIDENCE if given is None else given

    def draft_source(self, replace_answers: bool) -> DraftSource:
        """The drafts of ``--draft``; ``replace_answers`` as for :class:`~.drafts.NgramDraft`."""
        return draft_source(
            self.options, self.source_dictionary, self.dictionary, self.eos, replace_answers
        )

    def search_options(self) -> Optional[SearchOptions]:
        """The options with which the compiled search decodes; ``None`` if it does not."""
        return None

    @cached_property
    def _compiled_search(self) -> Optional[CompiledSearch]:
        options = self.search_options()
        if options is None:
            return None
        return CompiledSearch.of(self.session, self.rules, options)

    def compiled_drafts(self, replaces_answers: bool) -> Dict[str, Any]:
        """The drafts of ``--draft`` for the compiled search; see :meth:`draft_source`."""
        dictionaries = (self.source_dictionary, self.dictionary)
        return compiled_drafts(self.options, *dictionaries, replaces_answers)

    def horizons(self, sources: Sources) -> Optional[Tensor]:
        """The tokens of each sentence that Jacobi decoding solves in blocks: int64 ``[B]``.

        Returns:
            ``None`` for all.
        """
        return None

    @abstractmethod
    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        """The search rule: feed tokens, look at the answers, keep some, until no row is left.

        Args:
            bos: the token before the first.
            prefix: forced first tokens ``[B, P]``, padded on the right, or ``None``.
        """

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        if self.observer is None and self._compiled_search is not None:
            request = (sources, ids, bos, prefix, self.statistics)
            horizons = self.horizons(sources)
            translated = self._compiled_search.translate(*request, horizons)
            if translated is not None:
                self.records = translated[1]
                return translated
        batch = Batch(
            self.session,
            self.rules,
            self.statistics,
            sources,
            self.observer,
            prefix,
            self.accepts_blocks,
            self._best_tokens,
        )
        self.decode(batch, bos, prefix)
        self.records = records = batch.records(ids)
        return batch.hypotheses(), records
