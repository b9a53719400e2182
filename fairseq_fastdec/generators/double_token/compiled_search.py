"""Batches that the compiled search decodes two tokens a step, up to their natural order."""

from typing import Any, NamedTuple, Optional

import numpy as np
from torch import Tensor

from ...engine import EnsembleSession
from ...engine.kernels.search import n_threads, search_module
from ...engine.models import CompiledModels
from ...engine.network.positions import POSITIONS
from ..constraints import GenerationRules
from ..sources import Sources, are_tokens
from ..statistics import INVOCATIONS, Statistics


class EndedPairs(NamedTuple):
    """The hypotheses of a batch, in the order of decoding, and what they cost.

    Attributes:
        sentences: int64 ``[H]``, of each hypothesis.
        tokens, scores: int64 and float32 ``[H, N]``, in the order of decoding, ending in end tokens
            and padding, whose scores are 0.
        costs: int64 ``[B, 2]``, each sentence's steps, and its rows over all of them.
    """

    sentences: np.ndarray
    tokens: np.ndarray
    scores: np.ndarray
    costs: np.ndarray


class CompiledPairSearch:
    """The compiled search over the models of one session. For one thread at a time."""

    def __init__(
        self, session: EnsembleSession, rules: GenerationRules, width: int, right_bos: int
    ) -> None:
        """
        Args:
            rules: whose EOS is the end-of-decoding token.
            width: W.
            right_bos: the token beside the one before the first.
        """
        self._session, self._rules = session, rules
        self._width, self._right_bos = width, right_bos
        self._models = CompiledModels(session.members, n_heads=1)
        self._search: Any = None

    @classmethod
    def of(
        cls, session: EnsembleSession, rules: GenerationRules, width: int, right_bos: int
    ) -> Optional["CompiledPairSearch"]:
        """``None`` where the search cannot be compiled, whatever the sources."""
        if search_module() is None or session.has_shortlist:
            return None
        search = cls(session, rules, width, right_bos)
        search._models.follow(POSITIONS, POSITIONS)
        return None if search._models.models is None else search

    def decode(
        self, sources: Sources, bos: int, max_len: int, forced: Tensor, statistics: Statistics
    ) -> Optional[EndedPairs]:
        """Decode a batch; ``None`` for sources that are no tokens.

        Args:
            bos: the left token before the first.
            max_len: the most tokens of a sentence, without any end.
            forced: int64 ``[B, P]``, what the first slots must hold; padding where anything may.
        """
        if not are_tokens(sources.content):
            return None
        if self._models.follow(sources.width, max_len + 2):
            self._search = None
        if self._models.models is None:
            return None
        # A search that an error ends is not used again: sentences would be under way.
        search, self._search = self._search or self._new_search(), None
        before = search.counts
        search.admit(
            sources=sources.content.numpy(),
            ids=np.arange(sources.n),
            bos=bos,
            max_lens=np.full(sources.n, max_len),
            waived=np.full(sources.n, forced.size(1)),
            prefix=forced.numpy() if forced.size(1) else None,
        )
        search.advance(search_module().ALL_STEPS, n_threads())
        self._search = search
        statistics.count(before, search.counts, (*INVOCATIONS, "beam_steps"))
        return self._ended(search.finished())

    def _new_search(self) -> Any:
        module = search_module()
        return module.PairSearch(
            models=self._models.models,
            rules=self._rules.compiled(self._session.temperature),
            options=module.PairOptions(
                width=self._width,
                right_bos=self._right_bos,
                # fairseq's batches are decoded as a whole.
                capacity=module.ALL_STEPS,
            ),
        )

    def _ended(self, finished: Any) -> EndedPairs:
        outputs = finished.outputs
        lengths = np.array(outputs.lengths)
        is_own = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(is_own.shape, self._rules.pad)
        scores = np.zeros(is_own.shape, dtype=np.float32)
        tokens[is_own], scores[is_own] = outputs.tokens, outputs.scores
        costs = np.empty((len(finished.ids), 2), dtype=np.int64)
        costs[finished.ids] = np.stack([finished.steps, finished.expansions], axis=1)
        return EndedPairs(np.repeat(finished.ids, finished.n_hypotheses), tokens, scores, costs)
