"""The base class of methods that keep one hypothesis per sentence."""

import functools
from abc import abstractmethod
from collections.abc import Sequence

from torch import Tensor

from ...engine.searches import Result
from ..generator import DecodingGenerator
from ..request import Request
from .given_drafts import GivenDrafts
from .outputs import OutputBatch


class SingleHypothesisMethod(DecodingGenerator):
    """A method that keeps one hypothesis per sentence.

    Subclasses implement :meth:`decode`, and :meth:`search_options` if there is compiled code.
    """

    keeps_one_hypothesis = True

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

    def translate(self, request: Request) -> Sequence[Result]:
        batch = self.new_batch(request)
        batch.statistics, batch.observer = self.statistics, self.observer
        if self.observer is not None:
            batch.look_every = 1
        self.statistics.encoder_invocations += 1
        last = batch.open()
        if batch.n_rows:  # prefixes can be whole outputs
            self.decode(batch, last)
        return batch.results()

    def new_batch(self, request: Request) -> OutputBatch:
        """Encode sources and create a batch of empty outputs."""
        self.encode(request)
        return OutputBatch(self.network, self.rules, request, self.limits(request))
