"""The base of all generators: fairseq's generator interface around a search rule."""

import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..data.token_order import TRAINING_OF_TWO
from ..engine import EnsembleSession, ProposalWays, Shortlist
from .constraints import GenerationRules
from .generation_options import NO_REPEAT
from .hypothesis import Hypotheses, check_finite
from .ids import check_dictionaries, check_request
from .options import DecodingOptions
from .sources import Sources
from .statistics import SentenceRecord, Statistics, StatisticsFile, log_summary

FAIRSEQ_DEFAULT_BEAM = 5
# The types that heads propose, unless --proposal-types says otherwise.
DEFAULT_PROPOSAL_TYPES = 4096


class DecodingGenerator(ABC):
    """A drop-in for fairseq's ``SequenceGenerator``: its interface, options and statistics.

    Attributes:
        keeps_one_hypothesis: whether ``--beam`` and ``--nbest`` above 1 mean nothing.
        tokens_per_step: how many tokens the model has to predict at once.
        honours: the flags of fairseq's options that some methods honour and others do not.
        promises_greedy_tokens: whether steps of different lengths have to give the same numbers,
            see :func:`~..engine.products.precision.precision_of`.
    """

    keeps_one_hypothesis = False
    tokens_per_step = 1
    honours: FrozenSet[str] = frozenset({NO_REPEAT})
    promises_greedy_tokens = False

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        args: Any,
        options: DecodingOptions,
        symbols_to_strip_from_output: Sequence[int] = (),
        source_dictionary: Optional[Dictionary] = None,
        eos: Optional[int] = None,
    ) -> None:
        """
        Args:
            models: the ensemble; put into evaluation mode, as fairseq's generator does.
            dictionary: the target dictionary.
            args: fairseq's ``GenerationConfig`` or a namespace with some of its fields.
            source_dictionary: the source dictionary (default: the encoder's, which has none where
                sources are no tokens).
            eos: the token that ends a sentence (default: the dictionary's).

        Raises:
            ValueError: for a model or an option that the method cannot honour.
        """
        for model in models:
            model.eval()
        self.name = str(options.decoding)
        self.options = options
        self.args = args
        self.dictionary = dictionary
        if source_dictionary is None:
            source_dictionary = getattr(models[0].encoder, "dictionary", dictionary)
        self.source_dictionary = source_dictionary
        self.eos = dictionary.eos() if eos is None else eos
        self.session = self.make_session(models)
        self._check_tokens_per_step()
        check_dictionaries(models, self.source_dictionary, dictionary)
        max_positions = min(model.max_decoder_positions() for model in models)
        self.rules = GenerationRules.from_args(args, dictionary, max_positions, self.eos)
        self.symbols_to_strip_from_output = {*symbols_to_strip_from_output, self.eos}
        self.beam = getattr(args, "beam", FAIRSEQ_DEFAULT_BEAM)
        self.statistics = Statistics()
        self._file = StatisticsFile(options.decoding_stats)
        self._next_id = 0
        self._lock = threading.Lock()
        # At the end of a command fairseq drops its generator without telling it.
        weakref.finalize(self, log_summary, self.name, self.statistics)
        self.set_up(models)

    def make_session(self, models: Sequence[FairseqEncoderDecoderModel]) -> Any:
        """The object that computes the models' distributions: the engine's session.

        Raises:
            ValueError: for a model or an option that it cannot honour.
        """
        options = self.options
        return EnsembleSession(
            models,
            getattr(self.args, "temperature", 1.0),
            str(options.engine_precision),
            equal_steps=self.promises_greedy_tokens,
            shortlist=self.load_shortlist(),
            cuda_graphs=str(options.cuda_graphs),
            proposals=ProposalWays(self.proposal_types, options.rounds_proposals),
        )

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """Prepare what a method needs besides; the last act of construction.

        Raises:
            ValueError: for an option that does not go with the models or the dictionary.
        """

    @abstractmethod
    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        """Translate a batch.

        Args:
            sources: B of them, which have been checked.
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

        One thread decodes at a time, and others wait: a generator has one set of caches. Threads
        that are to decode at once have a generator each; those of one model share its weights.

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
            ``alignment``. An empty list for a batch of no sentences.

        Raises:
            ValueError: for constraints, tokens that are not in the dictionaries, a malformed
                prefix, a source without a token, or a --min-len that does not fit.
            NotFinite: for a sentence whose best score is not finite.
        """
        if constraints is not None:
            raise ValueError(
                f"--constraints: not possible with --decoding {self.name}; use --decoding fairseq"
            )
        bos = self.eos if bos_token is None else bos_token
        sources = Sources.of(sample, self.rules.pad)
        if not sources.n:
            return []
        with self._lock:
            ids = self._ids(sample, sources.n)
            check_request(sources, ids, prefix_tokens, bos, self.source_dictionary, self.dictionary)
            hypotheses, records = self.translate(sources, ids, bos, prefix_tokens)
            for record in records:
                self.statistics.count_sentence(record)
            self._file.write(records)
        check_finite(hypotheses, ids)
        return hypotheses

    @property
    def proposal_types(self) -> Optional[int]:
        """The number of target types that heads choose proposals from; ``None`` for all."""
        n, n_types = self.options.proposal_types, len(self.dictionary)
        if n is None:
            n = DEFAULT_PROPOSAL_TYPES if self.options.keeps_p1_tokens else 0
        least = self.dictionary.nspecial + 1
        return max(n, least) if 0 < n < n_types else None

    def load_shortlist(self) -> Optional[Shortlist]:
        """The target types of ``--shortlist``; ``None`` for all.

        Raises:
            ValueError: for a table that cannot be read, or sources that are no tokens.
        """
        options = self.options
        if options.shortlist is None:
            return None
        if self.source_dictionary is None:
            raise ValueError(
                f"--shortlist {options.shortlist}: the model's sources are not tokens of a "
                "dictionary; remove it"
            )
        return Shortlist.load(
            options.shortlist,
            self.source_dictionary,
            self.dictionary,
            min(options.shortlist_first, len(self.dictionary)),
            min(options.shortlist_best, len(self.dictionary)),
            besides=(self.eos,),
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
                f"--decoding {self.name}: the model predicts one token a step; use --decoding "
                f"beam, or {TRAINING_OF_TWO}"
            )

    def _ids(self, sample: Dict[str, Any], n_sentences: int) -> List[int]:
        first = self._next_id
        self._next_id += n_sentences
        ids = sample.get("id")
        return list(range(first, self._next_id)) if ids is None else ids.tolist()
