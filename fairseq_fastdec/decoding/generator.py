"""The base class of all methods: fairseq's generator interface, and choice of engine or torch."""

import functools
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine.rules import Limits
from ..engine.searches import Phrases, Recipe, Result, SearchOptions
from ..network import Ensemble
from ..network.support import check_dictionaries
from ..orders.token_order import TRAINING_OF_TWO
from ..packing.models import EngineModels, ProposalWays
from ..processes.noise import at_end
from ..translating.generation_options import ALIGNMENT_FLAGS, CONSTRAINTS, NO_REPEAT
from ..translating.registry import ANY_DRAFTED
from ..translating.shortlist import Shortlist
from ..translating.text import numbers_of
from ..translating.translation_memory import TranslationMemory
from . import alignments, shortlist
from .compiled import CompiledSearch
from .constraints import GenerationRules
from .draft_file import DraftFile
from .hypothesis import Hypotheses, check_finite
from .language_model import LanguageModel
from .request import Request, Sources, check_ids, check_request, phrases_of
from .statistics import Statistics, StatisticsFile, log_summary

if TYPE_CHECKING:
    from .options import DecodingOptions

logger = logging.getLogger(__name__)

FAIRSEQ_DEFAULT_BEAM = 5
# The default of --proposal-types if proposals cannot change the output.
DEFAULT_PROPOSAL_TYPES = 4096


class DecodingGenerator(ABC):
    """A drop-in replacement for fairseq's ``SequenceGenerator``, with statistics.

    A method is a subclass with :meth:`translate`, which decodes with torch. If the engine supports
    the models and :meth:`search_options` returns options, compiled code decodes instead.

    Attributes:
        keeps_one_hypothesis: whether ``--beam`` and ``--nbest`` above 1 are invalid.
        accepts_blocks: whether the statistics record the number of tokens kept per step.
        verifies_drafts: whether it accepts drafts given for the sentences.
        forbids_phrases: whether outputs can be kept from containing given phrases.
        tokens_per_step: the number of tokens that the model has to predict per step.
        honours: the flags of fairseq's optional features that this method supports.
        network: the models, for :meth:`translate`.
        lm: the language model of ``--lm-path``; ``None`` without one.
        alignment: ``--print-alignment``, ``hard`` or ``soft``; ``None`` without alignments. With
            ``--replace-unk``, ``hard`` is the default.
        beam: ``--beam``, at most the number of types that can be chosen.
        shortlist: the target types of ``--shortlist``; ``None`` for all.
        search: the method in compiled code; ``None`` if there is none.
        drafts: the drafts of ``--draft-file`` or a translation memory, for samples without
            ``drafts``; or ``None``.
        block_name: what the mean number of tokens kept per step is called in the log.
        observer: called after every decoder invocation by methods that keep one hypothesis. With an
            observer, torch decodes.
        results: of the last batch.
    """

    search: Optional[CompiledSearch]
    keeps_one_hypothesis = False
    accepts_blocks = True
    verifies_drafts = False
    forbids_phrases = True
    tokens_per_step = 1
    honours: frozenset[str] = frozenset({NO_REPEAT, *ALIGNMENT_FLAGS})
    block_name = Statistics.block_name
    observer: Optional[Callable[..., None]] = None
    results: Sequence[Result] = ()

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        args: Any,
        options: "DecodingOptions",
        symbols_to_strip_from_output: Sequence[int] = (),
        source_dictionary: Optional[Dictionary] = None,
        eos: Optional[int] = None,
        lm: Optional[LanguageModel] = None,
    ) -> None:
        """
        Args:
            models: the ensemble; put into evaluation mode, as fairseq's generator does.
            dictionary: the target dictionary.
            args: fairseq's ``GenerationConfig`` or a namespace with some of its fields.
            source_dictionary: the source dictionary (default: the encoder's, which is ``None`` if
                sources are not tokens).
            eos: the token that ends a sentence (default: the dictionary's).
            lm: a language model whose log-probabilities are added.

        Raises:
            ValueError: for a model or an option that the method does not support.
        """
        for model in models:
            model.eval()
        self.name = str(options.decoding)
        self.options = options
        self.args = args
        self.dictionary = dictionary
        self.alignment = alignments.kind_of(args)
        if source_dictionary is None:
            source_dictionary = getattr(models[0].encoder, "dictionary", dictionary)
        self.source_dictionary = source_dictionary
        if self.alignment is not None and source_dictionary is None:
            raise ValueError(alignments.NO_TOKENS)
        self.eos = dictionary.eos() if eos is None else eos
        self.temperature = getattr(args, "temperature", 1.0)
        self._models = list(models)
        self.lm = lm
        self.network = Ensemble(models, self.temperature, self.proposal_types, *(lm or ()))
        self.shortlist = self._load_shortlist()
        self._check_tokens_per_step()
        check_dictionaries(models, self.source_dictionary, dictionary)
        max_positions = min(model.max_decoder_positions() for model in models)
        if lm is not None:
            max_positions = min(max_positions, lm.max_positions)
        self.rules = GenerationRules.from_args(args, dictionary, max_positions, self.eos)
        self.rules.lm_weight = 0.0 if lm is None else lm.weight
        self.symbols_to_strip_from_output = {*symbols_to_strip_from_output, self.eos}
        # As in fairseq, padding is never chosen.
        self.beam = min(getattr(args, "beam", FAIRSEQ_DEFAULT_BEAM), len(dictionary) - 1)
        self.statistics = Statistics(block_name=self.block_name)
        self._file = StatisticsFile(options.decoding_stats)
        self.drafts = self._open_drafts()
        self._next_id = 0
        self._lock = threading.Lock()
        # fairseq deletes its generator at the end of a command without calling it.
        at_end(self, log_summary, self.name, self.statistics)
        self.set_up(models)
        self.search = self.choose_search(models)

    @classmethod
    def for_models(
        cls, models: Sequence[FairseqEncoderDecoderModel], options: "DecodingOptions"
    ) -> "type[DecodingGenerator]":
        """The class of the generator for these models."""
        return cls

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        """Set up the method; called before :meth:`choose_search` at the end of construction.

        Raises:
            ValueError: for an option that is incompatible with the models or the dictionary.
        """

    def choose_search(
        self, models: Sequence[FairseqEncoderDecoderModel]
    ) -> Optional[CompiledSearch]:
        """The method in compiled code; ``None`` if torch decodes.

        Raises:
            ValueError: for a precision that torch does not support.
        """
        # A shortlist already restricts the types.
        n_types = None if self.shortlist is not None else self.proposal_types
        ways = (self.n_proposing_heads, n_types, self.options.rounds_proposals)
        precision = str(self.options.engine_precision)
        given = (precision, ProposalWays(*ways), self.alignment is not None)
        self._engine = EngineModels(models, *given, None if self.lm is None else self.lm.model)
        options = self.search_options()
        if options is None:
            self._check_torch("the method has no compiled code")
            return None
        search = self.compiled_search(options)
        self._engine_decodes()
        return search

    def _engine_decodes(self) -> bool:
        """Whether the engine supports the models in their current state; otherwise torch decodes.

        Raises:
            ValueError: for a precision that torch does not support.
        """
        problem = self._engine.follow()
        if problem is not None:
            self._check_torch(problem)
        return problem is None

    def _check_torch(self, problem: str) -> None:
        """Log why torch decodes.

        Raises:
            ValueError: for a precision that torch does not support.
        """
        precision = str(self.options.engine_precision)
        is_own = precision == "fp32" and all(map(_is_fp32, self._models))
        if precision != "model" and not is_own:
            raise ValueError(
                f"--engine-precision {precision}: {problem}, and torch decodes in the precision of "
                "the model's weights; remove the option, or give --fp16"
            )
        _say(self.name, problem)

    def search_options(self) -> Optional[SearchOptions]:
        """The method's options in compiled code; ``None`` without compiled code."""
        return None

    def compiled_search(self, options: SearchOptions) -> CompiledSearch:
        """A compiled search with the models and rules of this generator."""
        given = (self._engine, self.rules, self.temperature, options, self.shortlist)
        return CompiledSearch(*given)

    @property
    def n_proposing_heads(self) -> int:
        """The number of prediction heads that propose, p_1 included; 1 without proposals."""
        return 1

    def prepare(self) -> None:
        """Prepare the engine's weights now instead of with the first batch."""
        if self.decodes_compiled():
            self._engine.reaching(0, 0)

    def decodes_compiled(self) -> bool:
        """Whether compiled code decodes the next batch, instead of torch.

        This is checked for each batch, since fairseq-train builds its generator before it moves the
        model to a GPU.
        """
        return self.search is not None and self.observer is None and self._engine_decodes()

    def recipe(self, n_source: int) -> Optional[Recipe]:
        """The search for sentences that are added and removed one by one.

        Args:
            n_source: the most tokens of a source.

        Returns:
            ``None`` if torch decodes, or if translations are sampled (``--sampling``) or recorded
            (``--decoding-stats``)
        """
        is_recorded = self.options.decoding_stats is not None
        if is_recorded or not self.decodes_compiled():
            return None
        assert self.search is not None
        return self.search.recipe(n_source, self.first_token(self.eos))

    def run(self, request: Request) -> Iterable[Result]:
        """Translate a batch with compiled code or torch; see :meth:`translate`."""
        self.prepare_request(request)
        translate = self.translate_compiled if self.decodes_compiled() else self.translate
        return translate(request)

    def first_token(self, bos: int) -> int:
        """The token before the first.

        Args:
            bos: that of the request; EOS by default.
        """
        return bos

    def prepare_request(self, request: Request) -> None:
        """Set what the method needs in a request, or reject it.

        Raises:
            ValueError: for a prefix that the method does not support.
        """

    def limits(self, request: Request) -> Limits:
        """The limits of each output; in fairseq, they depend on the widths of the batch.

        Raises:
            ValueError: for a --min-len above the maximum length.
        """
        n, width = request.n, request.sources.width
        return self.rules.limits([width] * n, [request.prefix_width] * n)

    def encode(self, request: Request) -> None:
        """Encode the sources, one empty row of the network for each."""
        self.network.reset()
        self.network.encode(request.sources.net_input, self.allowed_types(request))

    def allowed_types(self, request: Request) -> Optional[list[np.ndarray]]:
        """The target types that ``--shortlist`` allows for each source; ``None`` for all."""
        if self.shortlist is None:
            return None
        tokens = request.source_tokens
        assert tokens is not None  # checked when the shortlist is loaded
        return self.shortlist.types_of(tokens, request.prefix_tokens)

    def translate_compiled(self, request: Request) -> Iterable[Result]:
        """Translate a batch with :attr:`search`; see :meth:`translate`."""
        assert self.search is not None
        return self.search.results(request, self.limits(request), self.statistics)

    @abstractmethod
    def translate(self, request: Request) -> Iterable[Result]:
        """Translate a batch with torch.

        Returns:
            for each sentence, in any order, its place in the batch, its hypotheses as fairseq's
            dicts, and its cost
        """

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> Hypotheses:
        """Translate a batch; the interface of fairseq's ``SequenceGenerator.generate``.

        Calls are serialised by a lock, since a generator has one set of caches. To decode in
        several threads at once, give each thread its own generator; generators of one model share
        its weights.

        Args:
            models: ignored, as in fairseq: the ensemble is fixed at construction.
            sample: a fairseq batch with ``net_input``. It may have ``drafts``, int64 ``[D]`` for
                each sentence and empty for none, which are verified (``--draft-file``), and
                ``forbidden``, lists of the phrases that each output may not contain.
            prefix_tokens: int64 ``[B, P]``, forced first tokens, padded on the right.
            constraints: phrases that the outputs have to contain, int64 ``[B, P]``, packed as by
                fairseq's ``pack_constraints``.
            bos_token: the token before the first (default: EOS, fairseq's convention).

        Returns:
            for each sentence, its hypotheses, best first: dicts with ``tokens`` int64 ``[m]``
            ending in EOS, ``score`` (float32, natural logarithm, length-normalised unless
            --unnormalized), ``positional_scores`` float32 ``[m]``, ``attention`` and ``alignment``.
            Both are empty unless they are asked for, by :attr:`alignment` or by
            ``return_attention`` in the sample; attention is float32 ``[S, m]``, where S are the
            tokens of the source without padding. An empty list for a batch of no sentences.

        Raises:
            ValueError: for constraints that the method does not support or that are too long,
                tokens that are not in the dictionaries, a malformed prefix, an empty source, or a
                --min-len above the maximum length.
            NotFinite: for a sentence whose best score is not finite.
        """
        if constraints is not None and CONSTRAINTS not in self.honours:
            raise ValueError(
                f"{CONSTRAINTS}: not possible with --decoding {self.name}; use --decoding beam"
            )
        bos = self.eos if bos_token is None else bos_token
        sources = Sources.of(sample, self.rules.pad)
        if not sources.n:
            return []
        with self._lock:
            ids = self._ids(sample, sources.n)
            drafts = self._given_drafts_of(sample, sources.n)
            check_request(sources, ids, prefix_tokens, bos, self.source_dictionary, self.dictionary)
            request = Request(sources, ids, self.first_token(bos), prefix_tokens, drafts)
            request.constraints = phrases_of(constraints, self.dictionary)
            request.ordered = getattr(self.args, "constraints", None) == "ordered"
            request.forbidden = self._forbidden_of(sample)
            is_aligned = self.alignment is not None
            request.return_attention = is_aligned or sample.get("return_attention", False)
            results = sorted(self.run(request), key=lambda result: result.id)
            if request.return_attention:
                self._align(request, results)
            if not self.accepts_blocks:
                results = [result._replace(blocks=[]) for result in results]
            for result in results:
                n_tokens = result.hypotheses[0]["tokens"].numel()
                self.statistics.count_sentence(n_tokens, len(result.blocks))
            self._file.write(zip(ids, sources.lengths.tolist(), results))
            self.results = results
        hypotheses = [result.hypotheses for result in results]
        check_finite(hypotheses, ids)
        return hypotheses

    @property
    def needs_models(self) -> bool:
        """Whether the models' own weights are needed after those of the engine are prepared."""
        return self.alignment is not None and not self._engine.align

    def _align(self, request: Request, results: Sequence[Result]) -> None:
        """Set the attention of hypotheses where decoding has not returned it, and alignments.

        Raises:
            ValueError: for sources that are not tokens, and models without attention.
        """
        is_command = self.alignment is not None
        hypotheses = [result.hypotheses for result in results]
        alignments.complete(self._models, request, self.rules.pad, hypotheses, is_command)
        if is_command:
            special = (self.rules.pad, self.dictionary.eos())
            alignments.align(request.sources, *special, hypotheses, str(self.alignment))

    @property
    def proposal_types(self) -> Optional[int]:
        """The number of target types from which heads choose proposals; ``None`` for all."""
        n, n_types = self.options.proposal_types, len(self.dictionary)
        if n is None:
            n = DEFAULT_PROPOSAL_TYPES if self.options.keeps_p1_tokens else 0
        least = self.dictionary.nspecial + 1
        return max(n, least) if 0 < n < n_types else None

    def _load_shortlist(self) -> Optional[Shortlist]:
        """The target types of ``--shortlist``; ``None`` for all.

        Raises:
            ValueError: for a table that cannot be read, sources that are not tokens, or proposals
                that are not verified exactly.
        """
        options = self.options
        if options.shortlist in (None, "none"):
            return None
        # Heads choose among the types that any sentence of the batch may use.
        if not options.keeps_p1_tokens:
            raise ValueError(
                f"--shortlist {options.shortlist}: needs --acceptance exact and --min-block-size "
                "1; give these, or --shortlist none"
            )
        if self.source_dictionary is None:
            raise ValueError(
                f"--shortlist {options.shortlist}: the model's sources are not tokens of a "
                "dictionary; remove it"
            )
        return shortlist.load(
            options.shortlist,
            self.source_dictionary,
            self.dictionary,
            options.shortlist_first,
            options.shortlist_best,
            besides=(self.eos,),
        )

    def _open_drafts(self) -> Union[DraftFile, TranslationMemory, None]:
        """
        Raises:
            ValueError: for files that cannot be read, or sources that are not tokens.
        """
        options, target = self.options, self.dictionary
        if options.draft_file is not None:
            return DraftFile(options.draft_file, target)
        if options.memory_source is None or options.memory_target is None:
            return None
        if self.source_dictionary is None:
            raise ValueError(
                f"--memory-source {options.memory_source}: the model's sources are not tokens of a "
                "dictionary; remove it"
            )
        return TranslationMemory(
            options.memory_source,
            options.memory_target,
            lambda text: numbers_of(self.source_dictionary, text.split()),
            lambda text: numbers_of(target, text.split()),
        )

    def _check_tokens_per_step(self) -> None:
        n_trained = self.network.tokens_per_step
        if n_trained > self.tokens_per_step:
            raise ValueError(
                f"--decoding {self.name}: decodes one token a step, but the model predicts "
                f"{n_trained}; use --decoding double_token"
            )
        if n_trained < self.tokens_per_step:
            raise ValueError(
                f"--decoding {self.name}: the model predicts one token a step; use --decoding "
                f"beam, or {TRAINING_OF_TWO}"
            )

    def _given_drafts_of(
        self, sample: dict[str, Any], n_sentences: int
    ) -> Optional[Sequence[Tensor]]:
        """The drafts of a batch; ``None`` if there are none.

        Raises:
            ValueError: if the method does not verify drafts.
        """
        drafts = sample.get("drafts")
        if drafts is None and self.drafts is not None:
            drafts = list(map(torch.as_tensor, self.drafts.of_sample(sample, self.rules.pad)))
        if drafts is None:
            return None
        if not (self.verifies_drafts and self.options.keeps_p1_tokens):
            raise ValueError(
                f"--decoding {self.name}: does not verify drafts, or accepts tokens other than the "
                f"model's best; use {ANY_DRAFTED} with --acceptance exact"
            )
        if len(drafts) != n_sentences:
            raise ValueError(
                f"drafts: {len(drafts)} for {n_sentences} sentences; give one for each"
            )
        remedy = "encode them with the target's dictionary"
        check_ids("drafts", torch.cat(list(drafts)), self.dictionary, remedy)
        return drafts

    def _forbidden_of(self, sample: dict[str, Any]) -> Optional[list[Phrases]]:
        """
        Raises:
            ValueError: if the method has no such rule, and for tokens that are not in the
                dictionary.
        """
        forbidden = sample.get("forbidden")
        if forbidden is None:
            return None
        if not self.forbids_phrases:
            raise ValueError(f"forbidden: not possible with --decoding {self.name}; remove it")
        tokens = torch.tensor([token for own in forbidden for phrase in own for token in phrase])
        remedy = "encode them with the target's dictionary"
        check_ids("forbidden", tokens, self.dictionary, remedy)
        return forbidden

    def _ids(self, sample: dict[str, Any], n_sentences: int) -> list[int]:
        first = self._next_id
        self._next_id += n_sentences
        ids = sample.get("id")
        return list(range(first, self._next_id)) if ids is None else ids.tolist()


@functools.cache
def _say(name: str, problem: str) -> None:
    """Log once why torch decodes, since calls from Python build many generators."""
    logger.info("--decoding %s: torch decodes, since %s", name, problem)


def _is_fp32(model: FairseqEncoderDecoderModel) -> bool:
    return all(parameter.dtype == torch.float32 for parameter in model.parameters())
