"""Double-token decoding in compiled code."""

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from ...engine.kernels import loading
from ...engine.searches import hypotheses_of
from ..sources import Sources
from ..statistics import INVOCATIONS, Statistics
from .search import CompiledSearch


class CompiledPairs(CompiledSearch):
    """A compiled search for pairs of tokens."""

    def results(
        self, sources: Sources, bos: int, max_len: int, forced: Tensor, statistics: Statistics
    ) -> Iterator[tuple[int, list[tuple[list[int], list[float]]], int, int]]:
        """Decode a batch.

        Args:
            bos: the left token before the first.
            max_len: the maximum length of a sentence, without end tokens.
            forced: int64 ``[B, P]``, the tokens that the first slots must hold; padding allows any
                token.
            statistics: updated with the search's counters.

        Yields:
            for each sentence its place in the batch; for each hypothesis the tokens of its slots,
            y_L1, y_R1, y_L2, ..., and their log-probabilities; the steps and the expansions
        """
        prefix = forced.numpy() if forced.size(1) else None
        with self.search_for(sources.width, max_len + 2) as search:
            before = search.counts
            search.admit(
                ids=np.arange(sources.n),
                bos=bos,
                max_lens=np.full(sources.n, max_len),
                waived=np.full(sources.n, forced.size(1)),
                **self.arguments(sources, prefix),
            )
            search.advance(loading.library().ALL_STEPS, loading.n_threads())
        statistics.count(before, search.counts, (*INVOCATIONS, "beam_steps"))
        finished = search.finished()
        parts = (finished.ids, hypotheses_of(finished), finished.steps, finished.expansions)
        for number, found, steps, expansions in zip(*parts):
            slots = [(tokens.tolist(), scores.tolist()) for tokens, scores, _ in found]
            yield number, slots, steps, expansions
