"""Double-token decoding in compiled code."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from ...engine import EngineModels, Shortlist
from ...engine.kernels import loading
from ..constraints import GenerationRules
from ..sources import Sources, are_tokens
from ..statistics import INVOCATIONS, Statistics


class PairResult(NamedTuple):
    """A sentence that is done, by its place in the batch.

    Attributes:
        hypotheses: the tokens of each one's slots, y_L1, y_R1, y_L2, ..., and their
            log-probabilities.
    """

    number: int
    hypotheses: list[tuple[list[int], list[float]]]
    steps: int
    expansions: int


class CompiledPairs:
    """A compiled search for pairs of tokens. For one thread at a time."""

    def __init__(
        self,
        models: EngineModels,
        rules: GenerationRules,
        temperature: float,
        width: int,
        right_bos: int,
        shortlist: Optional[Shortlist],
    ) -> None:
        """
        Args:
            rules: whose EOS is the end token of pairs.
            temperature: divides the logits before the softmax.
            width: W, the most hypotheses of a beam.
            right_bos: the token beside the one before the first.
            shortlist: the target types that may be used; ``None`` for all.
        """
        self._models, self._rules, self._temperature = models, rules, temperature
        self._width, self._right_bos, self._shortlist = width, right_bos, shortlist
        self._search: Any = None
        self._models_of_search: list[Any] = []

    def results(
        self, sources: Sources, bos: int, max_len: int, forced: Tensor, statistics: Statistics
    ) -> Iterator[PairResult]:
        """Decode a batch.

        Args:
            bos: the left token before the first.
            max_len: the most tokens of a sentence, without any end.
            forced: int64 ``[B, P]``, what the first slots must hold; padding where anything may.
            statistics: counts what the search does.
        """
        search = self._search_over(self._models.reaching(sources.width, max_len + 2))
        # A search that an error ends is not used again: sentences would be under way.
        self._search = None
        before = search.counts
        tokens = sources.content.numpy() if are_tokens(sources.content) else None
        prefix, shortlist = forced.numpy() if forced.size(1) else None, self._shortlist
        search.admit(
            sources=tokens,
            ids=np.arange(sources.n),
            bos=bos,
            max_lens=np.full(sources.n, max_len),
            waived=np.full(sources.n, forced.size(1)),
            prefix=prefix,
            types=None if shortlist is None else shortlist.types_of(tokens, prefix),
            states=self._models.states(sources.net_input),
        )
        search.advance(loading.library().ALL_STEPS, loading.n_threads())
        self._search = search
        statistics.count(before, search.counts, (*INVOCATIONS, "beam_steps"))
        finished = search.finished()
        outputs = finished.outputs
        parts = (torch.from_numpy(part) for part in (outputs.tokens, outputs.scores))
        slots, scores = (part.split(outputs.lengths) for part in parts)
        hypotheses = iter([(own.tolist(), of_own.tolist()) for own, of_own in zip(slots, scores)])
        costs = (finished.ids, finished.n_hypotheses, finished.steps, finished.expansions)
        for number, n, steps, expansions in zip(*costs):
            yield PairResult(number, list(islice(hypotheses, n)), steps, expansions)

    def _search_over(self, models: list[Any]) -> Any:
        """The search of the last batch, unless the models are others now."""
        if self._search is None or models is not self._models_of_search:
            self._search, self._models_of_search = self._new_search(models), models
        return self._search

    def _new_search(self, models: list[Any]) -> Any:
        module = loading.library()
        return module.PairSearch(
            models=models,
            rules=self._rules.compiled(self._temperature),
            options=module.PairOptions(
                width=self._width,
                right_bos=self._right_bos,
                # fairseq's batches are decoded as a whole.
                capacity=module.ALL_STEPS,
            ),
        )
