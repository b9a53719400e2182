"""What all generators share: fairseq's generator interface around a search rule."""

import weakref
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EnsembleSession, Shortlist
from .batch import Batch, Observer
from .hypothesis import Hypotheses
from .ids import check_dictionaries, check_request
from .limits import Limits
from .options import DecodingOptions
from .sources import check_sources
from .statistics import SentenceRecord, Statistics, StatisticsFile, log_summary

FAIRSEQ_DEFAULT_BEAM = 5


class FairseqGenerator(ABC):
    """A drop-in for fairseq's ``SequenceGenerator``: its interface, options and statistics."""

    name: str
    keeps_one_hypothesis = True
    tokens_per_step = 1
    promises_greedy_tokens = False

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
            source_dictionary: the source dictionary (default: the encoder's).

        Raises:
            ValueError: for a model or an option that the method cannot honour.
        """
        for model in models:
            model.eval()
        self.options = options
        self.dictionary = dictionary
        if source_dictionary is None:
            source_dictionary = getattr(models[0].encoder, "dictionary", dictionary)
        self.source_dictionary = source_dictionary
        self.session = EnsembleSession(
            models,
            getattr(args, "temperature", 1.0),
            str(options.engine_precision),
            equal_steps=self.promises_greedy_tokens,
            shortlist=self._shortlist(),
            cuda_graphs=str(options.cuda_graphs),
        )
        self._check_tokens_per_step()
        check_dictionaries(models, self.source_dictionary, dictionary)
        max_positions = min(model.max_decoder_positions() for model in models)
        self.limits = Limits.of(args, dictionary, max_positions)
        self.eos = self.limits.eos
        self.symbols_to_strip_from_output = {*symbols_to_strip_from_output, self.eos}
        self.beam = getattr(args, "beam", FAIRSEQ_DEFAULT_BEAM)
        self.statistics = Statistics()
        self._file = StatisticsFile(options.decoding_stats)
        self._next_id = 0
        # At the end of a command fairseq drops its generator without telling it.
        weakref.finalize(self, log_summary, self.name, self.statistics)
        self.set_up(models)

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """What a method needs besides; the last act of construction.

        Raises:
            ValueError: for an option that does not go with the models or the dictionary.
        """

    @abstractmethod
    def translate(
        self, sample: Dict[str, Any], ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        """Translate a batch.

        Args:
            sample: a fairseq batch; its ``net_input`` has ``src_tokens`` ``[B, S]``.
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
            ValueError: for constraints, tokens that are not in the dictionaries, a malformed
                prefix, a source without a token, or a --min-len that does not fit.
        """
        if constraints is not None:
            raise ValueError(
                f"--constraints: not possible with --decoding {self.name}; use --decoding fairseq"
            )
        bos = self.eos if bos_token is None else bos_token
        check_request(sample, prefix_tokens, bos, self.source_dictionary, self.dictionary)
        ids = self._ids(sample)
        check_sources(sample["net_input"]["src_tokens"], self.source_dictionary.pad(), ids)
        hypotheses, records = self.translate(sample, ids, bos, prefix_tokens)
        for record in records:
            self.statistics.count_sentence(record)
        self._file.write(records)
        return hypotheses

    def _shortlist(self) -> Optional[Shortlist]:
        options = self.options
        if options.shortlist is None:
            return None
        return Shortlist.load(
            options.shortlist,
            self.source_dictionary,
            self.dictionary,
            min(options.shortlist_first, len(self.dictionary)),
            min(options.shortlist_best, len(self.dictionary)),
        )

    def _check_tokens_per_step(self) -> None:
        n_trained = self.session.tokens_per_step
        if n_trained > self.tokens_per_step:
            raise ValueError(
                f"--decoding {self.name}: decodes one token a step, and the model predicts "
                f"{n_trained}; use --decoding double_token"
            )
        if n_trained < self.tokens_per_step:
            raise ValueError(
                f"--decoding {self.name}: the model predicts one token a step; train one with "
                "--task translation_double_token --arch double_token_transformer, or use "
                "--decoding beam"
            )

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

    promises_greedy_tokens = True

    # Called with what every decoder invocation was given and answered: see ``visualize.Recorder``.
    observer: Optional[Observer] = None

    @abstractmethod
    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        """The search rule: feed, look, append, until no row is left.

        Args:
            bos: the token before the first.
            prefix: forced first tokens ``[B, P]``, padded on the right, or ``None``.
        """

    def translate(
        self, sample: Dict[str, Any], ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        batch = Batch(self.session, self.limits, self.statistics, sample, self.observer, prefix)
        self.decode(batch, bos, prefix)
        return batch.hypotheses(), batch.records(ids)
