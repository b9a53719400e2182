"""What all generators share: fairseq's generator interface around a search rule."""

import weakref
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EnsembleSession
from .batch import Batch
from .limits import Limits
from .options import DecodingOptions
from .statistics import SentenceRecord, Statistics, StatisticsFile, log_summary

Hypotheses = List[List[Dict[str, Any]]]


class FairseqGenerator(ABC):
    """A drop-in for fairseq's ``SequenceGenerator``: its interface, options and statistics."""

    name: str
    keeps_one_hypothesis = True

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        args: Any,
        options: DecodingOptions,
        symbols_to_strip_from_output: Sequence[int] = (),
    ) -> None:
        """
        Args:
            models: the ensemble; put into evaluation mode, as fairseq's generator does.
            args: fairseq's ``GenerationConfig`` or a namespace with some of its fields.

        Raises:
            ValueError: for a model or an option that the method cannot honour.
        """
        for model in models:
            model.eval()
        self.session = EnsembleSession(models, getattr(args, "temperature", 1.0))
        max_positions = min(model.max_decoder_positions() for model in models)
        self.limits = Limits.of(args, dictionary, max_positions)
        self.eos = self.limits.eos
        self.symbols_to_strip_from_output = {*symbols_to_strip_from_output, self.eos}
        self.options = options
        self.statistics = Statistics()
        self._file = StatisticsFile(options.decoding_stats)
        self._next_id = 0
        # At the end of a command fairseq drops its generator without telling it.
        weakref.finalize(self, log_summary, self.name, self.statistics)

    @abstractmethod
    def translate(
        self, net_input: Dict[str, Tensor], ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        """Translate a batch.

        Args:
            net_input: as fairseq's batches hold it, with ``src_tokens`` ``[B, S]``.
            ids: the sentences' numbers, for the records.
            bos: the token before the first.
            prefix: forced first tokens ``[B, P]``, padded on the right, or ``None``.

        Returns:
            what :meth:`generate` returns, and what each sentence cost.
        """

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> Hypotheses:
        """Translate a batch; the interface of fairseq's ``SequenceGenerator.generate``.

        Args:
            models: ignored, as in fairseq: the ensemble was fixed at construction.
            sample: a fairseq batch with ``net_input``.
            prefix_tokens: int64 ``[B, P]``, forced first tokens, padded on the right.
            constraints: must be ``None``.
            bos_token: the token before the first (default: EOS, fairseq's convention).

        Returns:
            for each sentence its hypotheses, best first: dicts with ``tokens`` int64 ``[m]``
            ending in EOS, ``score`` (float32, natural logarithm, length-normalised unless
            --unnormalized), ``positional_scores`` float32 ``[m]``, and empty ``attention`` and
            ``alignment``.

        Raises:
            ValueError: for constraints, a malformed prefix, or a --min-len that does not fit.
        """
        if constraints is not None:
            raise ValueError(
                f"--constraints: not possible with --decoding {self.name}; use --decoding fairseq"
            )
        bos = self.eos if bos_token is None else bos_token
        ids = self._ids(sample)
        hypotheses, records = self.translate(sample["net_input"], ids, bos, prefix_tokens)
        for record in records:
            self.statistics.count_sentence(record)
        self._file.write(records)
        return hypotheses

    def _ids(self, sample: Dict[str, Any]) -> List[int]:
        n_sentences = sample["net_input"]["src_tokens"].size(0)
        first = self._next_id
        self._next_id += n_sentences
        ids = sample.get("id")
        return list(range(first, self._next_id)) if ids is None else ids.tolist()


class Generator(FairseqGenerator):
    """A generator that keeps one hypothesis for each sentence of a :class:`Batch`.

    Subclasses hold a search rule, :meth:`decode`, and nothing else.
    """

    @abstractmethod
    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        """The search rule: feed, look, append, until no row is left.

        Args:
            bos: the token before the first.
            prefix: forced first tokens ``[B, P]``, padded on the right, or ``None``.
        """

    @property
    def block_size(self) -> int:
        """The most tokens that the rule appends at once."""
        return 1

    def translate(
        self, net_input: Dict[str, Tensor], ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        batch = Batch(self.session, self.limits, self.statistics, net_input, self.block_size)
        self.decode(batch, bos, prefix)
        return batch.hypotheses(), batch.records(ids)
