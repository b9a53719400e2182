"""The base class of methods that keep one hypothesis per sentence."""

import functools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Optional

from torch import Tensor

from ..compiled.outputs import CompiledOutputs
from ..generator import DecodingGenerator
from ..hypothesis import Hypotheses
from ..sources import Sources
from ..statistics import SentenceRecord
from .given_drafts import GivenDrafts
from .outputs import OutputBatch


class SingleHypothesisMethod(DecodingGenerator):
    """A method that keeps one hypothesis per sentence.

    Subclasses implement :meth:`decode`, and :meth:`search_options` if there is compiled code.

    Attributes:
        accepts_blocks: whether the statistics record the number of tokens kept per step.
        records: the cost of each sentence of the last batch decoded by torch.
    """

    search_class = CompiledOutputs
    keeps_one_hypothesis = True
    accepts_blocks = True
    records: Sequence[SentenceRecord] = ()

    @functools.cached_property
    def given_drafts(self) -> GivenDrafts:
        """The drafts given for sentences, in methods that verify them."""
        return GivenDrafts(self.rules.pad, self.eos)

    @abstractmethod
    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        """Decode until no row is left: feed tokens, compute distributions, keep tokens.

        Args:
            last: int64 ``[R]``, the first token to feed to each row: BOS, or the last token of its
                prefix.
        """

    def translate(
        self, sources: Sources, ids: list[int], bos: int, prefix: Optional[Tensor]
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        batch = self.new_batch(sources, prefix)
        batch.statistics, batch.observer = self.statistics, self.observer
        self.statistics.encoder_invocations += 1
        last = batch.open(bos, prefix)
        if batch.n_rows:  # prefixes can be whole outputs
            self.decode(batch, last)
        self.records = records = batch.records(ids, with_blocks=self.accepts_blocks)
        return batch.hypotheses(), records

    def new_batch(self, sources: Sources, prefix: Optional[Tensor]) -> OutputBatch:
        """Encode sources and create a batch of empty outputs."""
        self.encode(sources, prefix)
        return OutputBatch(self.network, self.rules, sources)
