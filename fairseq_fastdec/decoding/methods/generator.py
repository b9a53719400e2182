"""fairseq's generator interface around the methods of this package."""

from abc import abstractmethod
from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine import Shortlist
from ...generators.base import DecodingGenerator
from ...generators.hypothesis import Hypotheses
from ...generators.sources import Sources
from ...generators.statistics import SentenceRecord
from ...network import Ensemble
from .outputs import OutputBatch, StepObserver


class MethodToRead(DecodingGenerator):
    """A method that decodes with an :class:`~fairseq_fastdec.network.Ensemble`, in torch alone."""

    shortlist: Optional[Shortlist] = None

    @property
    def network(self) -> Ensemble:
        """The models."""
        return self.session

    def make_session(self, models: Sequence[FairseqEncoderDecoderModel]) -> Ensemble:
        """
        Raises:
            ValueError: for a precision other than the models' own.
        """
        precision = str(self.options.engine_precision)
        is_own = precision == "fp32" and all(_is_fp32(model) for model in models)
        if precision != "model" and not is_own:
            raise ValueError(
                f"--engine-precision {precision}: needs compiled code for these models; install a "
                "C++ compiler and the package again, or remove the option"
            )
        self.shortlist = self.load_shortlist()
        return Ensemble(models, getattr(self.args, "temperature", 1.0), self.proposal_types)


class SingleHypothesisMethod(MethodToRead):
    """A method that keeps one hypothesis for each sentence.

    Subclasses hold the method itself, :meth:`decode`, and nothing else.

    Attributes:
        observer: is called after every decoder invocation, see :meth:`OutputBatch.observe`.
        records: the cost of each sentence of the last batch.
    """

    keeps_one_hypothesis = True
    promises_greedy_tokens = True
    accepts_blocks = True
    observer: Optional[StepObserver] = None
    records: Sequence[SentenceRecord] = ()

    @abstractmethod
    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        """Feed tokens, look at the distributions, keep some tokens, until no row is left.

        Args:
            last: int64 ``[R]``, the token that each row is fed first: BOS, or the last one of its
                prefix.
        """

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        batch = self.new_batch(sources, prefix)
        batch.statistics, batch.observer = self.statistics, self.observer
        self.statistics.encoder_invocations += 1
        last = batch.open(bos, prefix)
        if batch.n_rows:  # prefixes can be whole outputs
            self.decode(batch, last)
        self.records = records = batch.records(ids, with_blocks=self.accepts_blocks)
        return batch.hypotheses(), records

    def new_batch(self, sources: Sources, prefix: Optional[Tensor]) -> OutputBatch:
        """A batch of empty outputs, whose sources are encoded."""
        self.network.reset()
        if self.shortlist is not None:
            types = allowed_types(self.shortlist, sources.content, prefix)
            self.network.restrict(union(self.shortlist, types, sources.device))
        self.network.encode(sources.net_input)
        return OutputBatch(self.network, self.rules, sources)


def allowed_types(
    shortlist: Shortlist, source_tokens: Tensor, prefix: Optional[Tensor]
) -> List[np.ndarray]:
    """The target types that each source allows, and those of its prefix.

    Args:
        source_tokens: int64 ``[B, S]``, padded; prefix: int64 ``[B, P]``, padded, or ``None``.
    """
    allowed = [shortlist.allow(tokens) for tokens in source_tokens.cpu().numpy()]
    if prefix is None:
        return allowed
    return [np.concatenate(pair) for pair in zip(allowed, prefix.cpu().numpy())]


def union(shortlist: Shortlist, allowed: Sequence[np.ndarray], device: torch.device) -> Tensor:
    """The types that at least one source allows, and those that all do: int64 ``[K]``."""
    return torch.from_numpy(shortlist.union(allowed)).to(device)


def _is_fp32(model: FairseqEncoderDecoderModel) -> bool:
    return all(parameter.dtype == torch.float32 for parameter in model.parameters())
