"""What all generators share: fairseq's generator interface around a search rule."""

import weakref
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EnsembleSession
from .batch import Batch, Observer
from .limits import Limits
from .options import DecodingOptions
from .statistics import Statistics, StatisticsFile, log_summary


class Generator(ABC):
    """A drop-in for fairseq's ``SequenceGenerator`` that keeps one hypothesis for each sentence.

    Subclasses hold a search rule, :meth:`decode`, and nothing else.
    """

    name: str

    # Called with what every decoder invocation was given and answered: see ``visualize.Recorder``.
    observer: Optional[Observer] = None

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        args: Any,
        options: DecodingOptions,
        symbols_to_strip_from_output: Sequence[int] = (),
        source_dictionary: Optional[Dictionary] = None,
    ) -> None:
        """
        Args:
            models: the ensemble; put into evaluation mode, as fairseq's generator does.
            dictionary: the target dictionary.
            args: fairseq's ``GenerationConfig`` or a namespace with some of its fields.
            source_dictionary: the source dictionary (default: the target dictionary).

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
        self.dictionary = dictionary
        self.source_dictionary = source_dictionary or dictionary
        self.statistics = Statistics()
        self._file = StatisticsFile(options.decoding_stats)
        self._next_id = 0
        # At the end of a command fairseq drops its generator without telling it.
        weakref.finalize(self, log_summary, self.name, self.statistics)
        self.set_up()

    def set_up(self) -> None:
        """What a method needs besides; the last act of construction.

        Raises:
            ValueError: for an option that does not go with the models or the dictionary.
        """

    @abstractmethod
    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        """The search rule: feed, look, append, until no row is left.

        Args:
            bos: the token before the first.
            prefix: forced first tokens ``[B, P]``, padded on the right, or ``None``.
        """

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Dict[str, Any]]]:
        """Translate a batch; the interface of fairseq's ``SequenceGenerator.generate``.

        Args:
            models: ignored, as in fairseq: the ensemble was fixed at construction.
            sample: a fairseq batch with ``net_input``.
            prefix_tokens: int64 ``[B, P]``, forced first tokens, padded on the right.
            constraints: must be ``None``.
            bos_token: the token before the first (default: EOS, fairseq's convention).

        Returns:
            for each sentence a list with one hypothesis: a dict with ``tokens`` int64 ``[m]``
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
        batch = Batch(self.session, self.limits, self.statistics, sample, self.observer)
        bos = self.eos if bos_token is None else bos_token
        self.decode(batch, bos, prefix_tokens)
        self._keep_statistics(batch, sample)
        return batch.hypotheses()

    def _keep_statistics(self, batch: Batch, sample: Dict[str, Any]) -> None:
        n_sentences = sample["net_input"]["src_tokens"].size(0)
        ids = sample.get("id")
        if ids is None:
            ids = torch.arange(self._next_id, self._next_id + n_sentences)
        self._next_id += n_sentences
        records = batch.records(ids.tolist())
        for record in records:
            self.statistics.count_sentence(record)
        self._file.write(records)
