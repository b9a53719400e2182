"""Translates with the models of checkpoints."""

import math
from argparse import Namespace
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch
from fairseq.dataclass.configs import GenerationConfig

from ..decoding import DecodingGenerator
from ..engine.kernels import loading
from ..engine.rules import SearchRules
from ..engine.searches import NO_RESTRICTIONS, Recipe, SourceSentence
from ..processes.cores import TURNS
from ..translating.alignments import kind_of
from ..translating.generation_options import COUNT, shown
from ..translating.glossary import Glossary, glossary_of, with_glossary
from ..translating.languages import Languages, Pair, chosen_pair
from ..translating.phrases import problem_of
from ..translating.registry import STOCK, decoding_names, generator_class
from ..translating.results import NOT_FINITE, Problem
from ..translating.scoring import encoded_target, score_or_details
from ..translating.sentences import Sentence
from ..translating.translation_memory import TranslationMemory
from ..translating.translator import Found, SentenceJob, Translator, check_verifies
from .codec import TaskCodec, as_tensors
from .kept_generators import KeptGenerators, key_of
from .scoring import PairToScore, scores_in_torch
from .task_start import TaskStart
from .whole_batches import LEFT_OUT, SourceLimit, WholeBatches, output_of, stripped_by

BATCH_SIZE = 32
# The number of pairs of languages for which a translator keeps prepared objects.
MOST_PAIRS = 256
# The number of source positions for sentences that join one by one, if the model has no limit.
MOST_POSITIONS = 4096

# The recorded options that only beams have.
OF_BEAMS = frozenset({"beam", "nbest"})

# Options that only commands read, and the alternative.
OF_COMMANDS = {
    "print_alignment": "give alignment=True and details=True",
    "replace_unk": "use fairseq-generate",
    "score_reference": "use score()",
    "constraints": "give it to translate()",
    "draft_file": "give drafts=[...]",
    "print_step": "remove it",
    "retain_iter_history": "remove it",
}


class CheckpointRequest(NamedTuple):
    """The options of a call.

    Attributes:
        decoding: decoding options of fairseq and this package, as given; missing ones have their
            defaults.
        key: :func:`~.kept_generators.key_of` the decoding options.
        nbest: the number of hypotheses to return.
        pair: the languages.
        batch_size: sentences per batch.
        max_tokens: source tokens per batch, padding included; ``None`` for no limit.
        alignment: a kind of :mod:`..translating.alignments`; ``None`` without alignments.
        glossary: terms with prescribed translations; ``None`` for none.
    """

    decoding: dict[str, Any]
    key: Optional[Hashable]
    nbest: int
    pair: Pair
    batch_size: int
    max_tokens: Optional[int]
    alignment: Optional[str]
    glossary: Optional[Glossary]


class OfPair(NamedTuple):
    """The task for a pair of languages.

    Attributes:
        batches: for what cannot join a running batch.
        start: what the task adds to sentences.
    """

    batches: WholeBatches
    start: TaskStart


class Joining(NamedTuple):
    """Decoding of sentences with the options of one request in running batches.

    Attributes:
        recipes: by the token before the first one and the forced tokens, which the task chooses.
        stripped: the tokens that are not part of the text.
        memory: gives drafts for sentences without one; ``None`` for no memory.
    """

    recipes: dict[tuple[int, tuple[int, ...]], Recipe]
    stripped: set[int]
    memory: Optional[TranslationMemory] = None

    @property
    def aligns(self) -> bool:
        """Whether decoding returns attention that aligns subwords."""
        return next(iter(self.recipes.values())).aligns

    def recipe(self, bos: Optional[int], prefix: tuple[int, ...]) -> Recipe:
        """The recipe with these first tokens; ``bos`` is ``None`` for the generator's."""
        usual = next(iter(self.recipes.values()))
        key = (usual.bos if bos is None else bos, prefix)
        if key not in self.recipes:
            self.recipes[key] = usual.beginning(*key)
        return self.recipes[key]


class CheckpointTranslator(Translator):
    """Translates with a loaded ensemble. Threads share one copy of the weights.

    Calls decode in parallel as long as there are free cores, and otherwise wait.

    Attributes:
        task: fairseq's task.
        models: the ensemble.
        languages: of a model that translates between many; ``None`` for one pair.
        n_source: the maximum number of source tokens, EOS included; ``None`` without a limit.
    """

    codec: TaskCodec

    def __init__(
        self,
        task: Any,
        models: list[Any],
        codec: TaskCodec,
        device: str,
        options: dict[str, Any],
        recorded: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            models: the ensemble, on ``device``.
            options: see :func:`~.loading.load`.
            recorded: the decoding options that an imported model was published with, which apply
                to calls that neither give them nor choose a method that does not have them.

        Raises:
            ValueError: for an option that the method does not support.
        """
        super().__init__(codec)
        self.task, self.models = task, models
        names = (getattr(task._options, f"{side}_lang", None) for side in ("source", "target"))
        # The task may have been given ISO codes.
        self._pair = getattr(task, "pair", Pair(*names))
        self.source_lang, self.target_lang = self._pair
        self._device = device
        self._kept = KeptGenerators()
        self.languages: Optional[Languages] = getattr(task, "languages", None)
        self._pairs: dict[Pair, OfPair] = {}
        self.n_source = SourceLimit.of(self.of_pair(self._pair).batches.positions, None).most
        # OmegaConf is slow; the task's options stay as they are.
        self._has_method = str(getattr(task._options, "decoding", STOCK)) != STOCK
        self._options, self._recorded = with_glossary(options), recorded
        self._usual = self._new_request({})
        self._check_glossary()

    def of_pair(self, pair: Optional[Pair] = None) -> OfPair:
        """The task for a pair of languages (default: that of :func:`~.loading.load`)."""
        pair = pair or self._pair
        if len(self._pairs) > MOST_PAIRS:
            self._pairs.clear()
        if pair not in self._pairs:
            task = self.task if pair == self._pair else self.task.of_pair(pair)
            batches = WholeBatches(task, self.models, self._device)
            self._pairs[pair] = OfPair(batches, TaskStart(task, self.models, batches))
        return self._pairs[pair]

    def n_threads(self) -> int:
        """The number of threads per sentence, which is torch's setting."""
        return loading.n_threads()

    def _job(
        self, sentence: Sentence, request: CheckpointRequest
    ) -> Union[SentenceJob, Problem, None]:
        joining, kind = self._joining(request), request.alignment
        if joining is None or (kind is not None and not joining.aligns):
            return None
        source = self._source(sentence.text, request)
        if isinstance(source, Problem):
            return source
        drafted, draft = None, sentence.draft
        if draft is not None:
            check_verifies(next(iter(joining.recipes.values())))
            drafted = np.array(self.codec.draft(draft), dtype=np.int64)
        elif joining.memory is not None:
            drafted = joining.memory.draft(source)
        starts = self.of_pair(request.pair).start
        start = starts.of(source)
        written = partial(self._written, source, joining.stripped)
        if kind is not None:
            written = partial(written, alignment=kind, places=self._places_in(starts, source))
        recipe = joining.recipe(start.bos, start.prefix)
        restrictions = self._restrictions(sentence, request)
        problem = problem_of(restrictions, recipe, len(start.source))
        if problem is not None:
            return problem
        given = SourceSentence(start.source, drafted, kind is not None, restrictions)
        return SentenceJob(recipe, given, request.nbest, written)

    def _several(
        self,
        sentences: Sequence[Sentence],
        request: CheckpointRequest,
        details: bool,
    ) -> list[Found]:
        sources = [self._source(sentence.text, request) for sentence in sentences]
        found: list[Found] = [own if isinstance(own, Problem) else LEFT_OUT for own in sources]
        places = [place for place, own in enumerate(sources) if isinstance(own, list)]
        if not places:
            return found
        drafted = None
        kept = [sentences[place] for place in places]
        if any(sentence.draft is not None for sentence in kept):
            self.task.check_token_order("drafts")
            drafted = as_tensors([self.codec.draft(sentence.draft or ()) for sentence in kept])
        restricted = [self._restrictions(sentence, request) for sentence in kept]
        if any(own != NO_RESTRICTIONS for own in restricted):
            self.task.check_token_order("constraints, forbidden")
        tokens = as_tensors([own for own in sources if isinstance(own, list)])
        limits = (request.batch_size, request.max_tokens, request.nbest)
        kind, (batches, starts) = request.alignment, self.of_pair(request.pair)
        if kind is not None:
            self.task.check_token_order(f"alignment {kind}")
        with self._kept.lent(request.key, lambda: self.built(request.decoding)) as generator:
            removed = stripped_by(generator)
            given = (drafted, kind is not None, restricted)
            decoded = list(batches.decoded(generator, tokens, *limits, *given))
        for number, best in decoded:
            place = places[number]
            found[place] = best
            if isinstance(best, list):
                source = tokens[number].tolist()
                outputs = [output_of(own) for own in best]
                subwords = () if kind is None else self._places_in(starts, source)
                found[place] = self._written(source, removed, outputs, details, kind, subwords)
        return found

    def _places_in(self, starts: TaskStart, source: list[int]) -> list[int]:
        """The places of a sentence's subwords in the attention; see :meth:`_places`."""
        return self._places(source, starts.place, self.task.source_dictionary.pad())

    def _scored(
        self, pairs: Sequence[tuple[str, str]], request: CheckpointRequest, details: bool
    ) -> list[Found]:
        self.task.check_token_order("score()")
        if self._joining(request) is not None:
            return super()._scored(pairs, request, details)
        read = [self._pair_to_score(*pair, request) for pair in pairs]
        found: list[Found] = [own if isinstance(own, Problem) else LEFT_OUT for own in read]
        given = {place: own for place, own in enumerate(read) if isinstance(own, PairToScore)}
        if not given:
            return found
        dictionaries = (self.codec.source, self.codec.target)
        limits = (request.batch_size, request.max_tokens, torch.device(self._device))
        with TURNS:
            outputs = list(scores_in_torch(self.models, dictionaries, given, *limits))
        for place, output in outputs:
            found[place] = NOT_FINITE
            if math.isfinite(output.score):
                pair = given[place]
                removed = {self.codec.target.eos(), *pair.start.prefix}
                written = partial(self._written, pair.source, removed)
                found[place] = score_or_details(written, [output], details)
        return found

    def _pair_to_score(
        self, text: str, target: str, request: CheckpointRequest
    ) -> Union[PairToScore, Problem]:
        source = self._source(text, request)
        if isinstance(source, Problem):
            return source
        start, words = self.of_pair(request.pair).start.of(source), self.codec.target
        limits = [model.max_decoder_positions() for model in self.models]
        most = min(limits if request.max_tokens is None else [*limits, request.max_tokens])
        rules = SearchRules(words.pad(), words.unk(), words.eos(), max_positions=most)
        tokens = encoded_target(target, self.codec, rules, len(start.prefix))
        return tokens if isinstance(tokens, Problem) else PairToScore(source, start, tokens)

    def _source(self, text: str, request: CheckpointRequest) -> Union[list[int], Problem]:
        """The tokens of a sentence, with EOS."""
        source = self.codec.encode(text)
        if isinstance(source, Problem):
            return source
        limit = SourceLimit.of(self.of_pair().batches.positions, request.max_tokens)
        return limit.problem(source) or source

    def _joining(self, request: CheckpointRequest) -> Optional[Joining]:
        """The decoding in running batches; ``None`` if the request does not support it."""
        # Building a generator draws a seed or empties the file of statistics.
        acts = request.decoding.get("sampling") or request.decoding.get("decoding_stats")
        if request.key is None or self._device != "cpu" or acts:
            return None
        return self._remembered(request.key, lambda: self._new_joining(request.decoding))

    def _new_joining(self, decoding: dict[str, Any]) -> Optional[Joining]:
        generator = self.built(decoding)
        recipe = None
        if isinstance(generator, DecodingGenerator):
            recipe = generator.recipe(self.n_source or MOST_POSITIONS)
        if recipe is None or self.of_pair().start.changes_hypotheses:
            return None
        memory = generator.drafts if isinstance(generator.drafts, TranslationMemory) else None
        return Joining({(recipe.bos, ()): recipe}, stripped_by(generator), memory)

    def _new_request(self, options: dict[str, Any]) -> CheckpointRequest:
        """
        Raises:
            ValueError: for an option that is unknown, not supported by the method, or one of
                :data:`OF_COMMANDS`.
        """
        merged = {**self._options, **options}
        merged = {**_applying(self._recorded, merged), **merged}
        names = (merged.pop("source", None), merged.pop("target", None))
        pair = chosen_pair(self.languages, self._pair, *names)
        for name in merged.keys() & OF_COMMANDS.keys():
            if merged[name]:
                raise ValueError(
                    f"{name} {merged[name]}: not possible in this call; {OF_COMMANDS[name]}"
                )
        nbest = merged.get("nbest", 1)
        if "decoding" not in merged and not self._has_method:
            many = merged.get("beam", 1) != 1 or nbest != 1 or merged.get("sampling", False)
            merged["decoding"] = "beam" if many else "greedy"
        limits = [merged.pop("batch_size", BATCH_SIZE), merged.pop("max_tokens", None)]
        for name, limit in zip(("batch_size", "max_tokens"), limits):
            if limit is not None and not COUNT.has(limit):
                raise ValueError(f"{name} {shown(limit)}: must be {COUNT.reason}, or None")
        alignment = kind_of(merged.pop("alignment", False))
        glossary = glossary_of(merged.pop("glossary", None))
        given = (nbest, pair, limits[0], limits[1], alignment, glossary)
        request = CheckpointRequest(merged, key_of(merged), *given)
        # Checks are slow, so each combination of options is checked only once.
        if request.key is None:
            self._args(merged)
        else:
            self._remembered(("checked", request.key), lambda: self._args(merged))
        return request

    def _args(self, options: dict[str, Any]) -> Namespace:
        """fairseq's generation options, updated with the given ones.

        Raises:
            ValueError: for an option that is unknown or not supported by the method.
        """
        self.task.check_option_names(options, "translate()")
        args = Namespace(**asdict(GenerationConfig()))
        vars(args).update(options)
        self.task.check_options(args)
        return args

    def built(self, options: dict[str, Any]) -> Any:
        """A generator of the task with options of a request."""
        args = self._args(options)
        generator = self.task.build_generator(self.models, args)
        # The task sets it to 1 for a method with one hypothesis, even if fairseq's default of 5 was
        # given explicitly.
        if args.beam != options.get("beam", args.beam):
            raise ValueError(
                f"--beam {options['beam']}: --decoding {generator.name} keeps one hypothesis; "
                "remove --beam or use --decoding beam"
            )
        return generator


def _applying(recorded: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The recorded options that the method of a call has."""
    if not recorded:
        return {}
    method = str(given.get("decoding", "beam"))
    if method not in decoding_names():
        return {}  # rejected when options are checked
    left_out = set[str]()
    if method == STOCK:
        left_out.add("shortlist")
    elif generator_class(method).keeps_one_hypothesis or given.get("beam") == 1:
        left_out |= OF_BEAMS
    # The rule of transformers is for beams of one size that compete.
    is_other = method != "beam" or given.get("beam") == 1
    is_other |= "diverse_beam_groups" in given
    if is_other or given.get("prune_threshold") is not None or given.get("sampling"):
        left_out.add("finalize")
    return {name: value for name, value in recorded.items() if name not in left_out}
