"""A call from Python: from text to translations, with the models of checkpoints.

import fairseq_fastdec

translator = fairseq_fastdec.load("checkpoint_best.pt", "data-bin/en-de")
translator.translate("Hello world.")
"""

import math
import os
from argparse import Namespace
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data.encoders import BPE_REGISTRY, TOKENIZER_REGISTRY
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..data.model_files import CODES, Codes, PathLike, bpe_of, checkpoints_of, codes_in, data_of
from ..decoding import DecodingGenerator
from ..decoding.alignments import hard_alignments
from ..decoding.hypothesis import NONE, Hypothesis, NotFinite
from ..decoding.methods.streaming import Capacity, Streaming
from ..decoding.option_rules import given
from ..engine.kernels import loading
from ..engine.searches import Output, Recipe
from ..processes.errors import in_short
from ..tasks.fast_decoding import STREAM_BUFFER, FastDecoding, makes_batches_as_fairseq
from ..translating.generation_options import COUNT, shown
from ..translating.registry import STOCK, any_joining
from ..translating.results import NOT_FINITE, Alignment, Problem, SentenceError, Translation
from ..translating.translation_memory import TranslationMemory
from ..translating.translator import (
    JoiningTranslator,
    SentenceJob,
    check_verifies,
    lines_and_drafts,
)
from .batches import DirectBatches, batches_of, max_positions_of
from .codec import TaskCodec, as_tensors, subword_in
from .kept_generators import KeptGenerators, key_of

AUTO = "auto"
BATCH_SIZE = 32
# The number of source positions for sentences that join one by one, if the model has no limit.
MOST_POSITIONS = 4096

# Options that only commands or only translate() read, and the alternative.
OF_COMMANDS = {
    "alignment": "only translate() aligns; give it a list of sentences",
    "print_alignment": "give alignment=True and details=True",
    "replace_unk": "use fairseq-generate",
    "score_reference": "use fairseq-generate, or the hub interface's score()",
    "constraints": "use fairseq-interactive",
    "draft_file": "give drafts=[...]",
    "print_step": "remove it",
    "retain_iter_history": "remove it",
}

LEFT_OUT = Problem("not translated", "the task left it out")


class SourceLimit(NamedTuple):
    """The maximum number of tokens of a sentence, EOS included.

    Attributes:
        most: ``None`` without a limit.
        source: the option that sets it.
    """

    most: Optional[int]
    source: str

    @classmethod
    def of(cls, positions: Any, max_tokens: Optional[int]) -> "SourceLimit":
        """
        Args:
            positions: the limits of the task and its models, resolved by fairseq.
            max_tokens: fairseq's ``--max-tokens``.
        """
        if isinstance(positions, (tuple, list)):
            positions = positions[0]
        limits = []
        if isinstance(positions, (int, float)) and not math.isinf(positions):
            limits.append(cls(int(positions), "--max-source-positions, or the model,"))
        if max_tokens is not None:
            limits.append(cls(max_tokens, "--max-tokens"))
        return min(limits, default=cls(None, ""))

    def problem(self, tokens: Sequence[int]) -> Optional[Problem]:
        """A problem if a sentence, with EOS, is too long; otherwise ``None``."""
        if self.most is None or len(tokens) <= self.most:
            return None
        return Problem(
            "too long",
            f"{len(tokens)} tokens with the end mark, but {self.source} allows {self.most}",
        )


def decoded(
    task: Any,
    generator: Any,
    models: Sequence[Any],
    batch: dict[str, Any],
    n_best: int,
    drafts: Optional[Sequence[Tensor]],
) -> Iterator[tuple[int, Union[list[Hypothesis], Problem]]]:
    """Yield the best hypotheses of each sentence of a batch, with its number.

    Args:
        n_best: the maximum number of hypotheses; a sentence without any, or whose score is not
            finite, has a problem instead.
        drafts: by the numbers of sentences; ``None`` without drafts.
    """
    if drafts is not None:
        batch["drafts"] = [drafts[number] for number in batch["id"].tolist()]
    lost: Collection[int] = ()
    try:
        hypotheses = task.inference_step(generator, models, batch)
    except NotFinite as error:
        hypotheses, lost = error.hypotheses, error.sentences
    for number, found in zip(batch["id"].tolist(), hypotheses):
        yield number, NOT_FINITE if number in lost else found[:n_best] or LEFT_OUT


def load(
    path: Union[PathLike, Sequence[PathLike]],
    data: Optional[PathLike] = None,
    source_lang: Optional[str] = None,
    target_lang: Optional[str] = None,
    tokenizer: Any = AUTO,
    bpe: Any = AUTO,
    bpe_codes: Optional[PathLike] = None,
    device: str = "cpu",
    **options: Any,
) -> "Translator":
    """Load a translation model.

    Args:
        path: a checkpoint; a directory with ``checkpoint.pt``, ``checkpoint_best.pt`` or a single
            ``*.pt``; or a list of either, which is an ensemble.
        data: the directory of the dictionaries ``dict.LANGUAGE.txt`` (default: the checkpoint's).
        source_lang: default: the checkpoint's, or that of the binarised files in ``data``.
        target_lang: likewise.
        tokenizer: fairseq's name of a tokeniser, an object with ``encode(str) -> str`` and
            ``decode(str) -> str``, or ``None``; ``"auto"`` is Moses' if codes of subword-nmt or
            fastBPE are found.
        bpe: likewise; ``"auto"`` is the BPE for the format of ``bpe_codes``.
        bpe_codes: the file of the BPE (default: ``bpe.codes``, ``code``, ``bpecodes``,
            ``sentencepiece.bpe.model`` or ``spm.model`` next to the checkpoint or in ``data``).
        device: torch's device.
        options: decoding options of fairseq and this package, the defaults for all calls; and the
            size of batches, ``batch_size`` (sentences, default 32) and ``max_tokens`` (source
            tokens, default no limit).

    Raises:
        OSError: if a file is missing; the message names it.
        ValueError: for an option that the method does not support, or incompatible files.
    """
    checkpoints = checkpoints_of(path)
    folder = data_of(checkpoints[0], data)
    overrides = {"data": folder, "source_lang": source_lang, "target_lang": target_lang}
    models, cfg, task = _loaded(
        checkpoints, {name: value for name, value in overrides.items() if value is not None}
    )
    if not isinstance(task, FastDecoding):
        raise ValueError(
            f"path {checkpoints[0]}: its task, {type(task).__name__}, has no decoding methods; "
            "call fairseq_fastdec.tasks.register_fastdec(NAME OF THE TASK) first"
        )
    for model in models:
        model.prepare_for_inference_(cfg)
        model.to(device)
    folders = list(dict.fromkeys([os.path.dirname(checkpoints[0]) or ".", folder]))
    codec = _codec(task, tokenizer, bpe, bpe_codes, folders)
    return Translator(task, models, codec, device, options)


def _loaded(checkpoints: list[str], overrides: dict[str, Any]) -> tuple[list[Any], Any, Any]:
    """Models, configuration and task of an ensemble."""
    try:
        return checkpoint_utils.load_model_ensemble_and_task(checkpoints, overrides)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename or error}: no such file; give source_lang and target_lang, or "
            "data=DIRECTORY with dict.LANGUAGE.txt for both"
        ) from error
    except Exception as error:  # a damaged pickle may raise anything
        if isinstance(error, (OSError, ValueError)):
            raise
        if "infer language pair" in str(error):
            raise ValueError(
                "source_lang, target_lang: neither the checkpoint nor the files of "
                f"{overrides['data']} name the languages; give both"
            ) from error
        raise ValueError(
            f"path {', '.join(checkpoints)}: cannot be loaded ({in_short(error)}); give a complete "
            "checkpoint of fairseq-train that was trained with these dictionaries"
        ) from error


def _codec(
    task: Any, tokenizer: Any, bpe: Any, codes: Optional[PathLike], folders: list[str]
) -> TaskCodec:
    """The tokeniser and BPE given to :func:`load`, or those found.

    Raises:
        ValueError: for an unknown name, or if the dictionary has subwords but no codes are found.
    """
    for name, value, known in (
        ("tokenizer", tokenizer, TOKENIZER_REGISTRY),
        ("bpe", bpe, BPE_REGISTRY),
    ):
        if isinstance(value, str) and value not in (AUTO, *known):
            raise ValueError(f"{name} {value}: unknown; choose from {', '.join([AUTO, *known])}")
    found = Codes(str(codes), bpe_of(str(codes))) if codes is not None else codes_in(folders)
    if bpe == AUTO:
        subword = subword_in(task.target_dictionary)
        if found is None and subword is not None:
            raise ValueError(
                f"bpe auto: the dictionary has subwords such as {subword}, but no codes were found "
                f"(looked for {', '.join(CODES)} in {' and '.join(folders)}); give bpe_codes=FILE, "
                "or bpe=None for text in subwords"
            )
        bpe = None if found is None else found.bpe
    if tokenizer == AUTO:
        tokenizer = "moses" if bpe in ("subword_nmt", "fastbpe") else None
    names = Namespace(
        tokenizer=tokenizer,
        bpe=bpe,
        bpe_codes=None if found is None else found.path,
        sentencepiece_model=None if found is None else found.path,
        source_lang=getattr(task._options, "source_lang", None),
        target_lang=getattr(task._options, "target_lang", None),
    )
    if isinstance(tokenizer, str):
        tokenizer = task.build_tokenizer(names)
    bpe = task.build_bpe(names) if isinstance(bpe, str) else bpe
    return TaskCodec(task, tokenizer, bpe, codes=names.bpe_codes)


class Request(NamedTuple):
    """The options of a call.

    Attributes:
        decoding: decoding options of fairseq and this package, as given; missing ones have their
            defaults.
        key: :func:`~.kept_generators.key_of` the decoding options.
        nbest: the number of hypotheses to return.
        batch_size: sentences per batch.
        max_tokens: source tokens per batch, padding included; ``None`` for no limit.
    """

    decoding: dict[str, Any]
    key: Optional[Hashable]
    nbest: int
    batch_size: int
    max_tokens: Optional[int]


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

    def recipe(self, bos: Optional[int], prefix: tuple[int, ...]) -> Recipe:
        """The recipe with these first tokens; ``bos`` is ``None`` for the generator's."""
        usual = next(iter(self.recipes.values()))
        key = (usual.bos if bos is None else bos, prefix)
        if key not in self.recipes:
            self.recipes[key] = replace(usual, bos=key[0], prefix=prefix)
        return self.recipes[key]


class RecordingGenerator:
    """A generator that does not decode, but records the arguments that a task passes to it.

    Attributes:
        hypotheses: the fixed result.
    """

    def __init__(self, eos: int) -> None:
        scores = torch.zeros(1)
        nothing = {"attention": NONE, "alignment": NONE, "positional_scores": scores}
        self.hypotheses = [[{"tokens": torch.tensor([eos]), "score": scores[0], **nothing}]]

    def generate(
        self,
        models: Any,
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> Any:
        """See :meth:`.decoding.DecodingGenerator.generate`."""
        self.sample, self.prefix, self.bos = sample, prefix_tokens, bos_token
        return self.hypotheses


class Start(NamedTuple):
    """The arguments that a task passes to its generator for a sentence.

    Attributes:
        source: int64 ``[n]``.
        bos: the token before the first; ``None`` for the generator's default.
        prefix: forced first tokens.
    """

    source: np.ndarray
    bos: Optional[int] = None
    prefix: tuple[int, ...] = ()


class Translator(JoiningTranslator):
    """A loaded model, created by :func:`load`. Its methods are thread-safe.

    Threads share one copy of the weights. They decode in parallel as long as there are free cores,
    and otherwise wait.

    Attributes:
        task: fairseq's task.
    """

    def __init__(
        self, task: Any, models: list[Any], codec: TaskCodec, device: str, options: dict[str, Any]
    ) -> None:
        """
        Args:
            models: the ensemble, on ``device``.
            options: see :func:`load`.

        Raises:
            ValueError: for an option that the method does not support.
        """
        super().__init__()
        self.task = task
        self._models = models
        self._codec = codec
        self._device = device
        self._kept = KeptGenerators()
        self._positions = max_positions_of(task, models)
        self._direct: Optional[DirectBatches] = None
        self._eos, self._pad = task.source_dictionary.eos(), task.source_dictionary.pad()
        # OmegaConf is slow; the task's options stay as they are.
        self._has_method = str(getattr(task._options, "decoding", STOCK)) != STOCK
        self._options = options
        self._usual = self._request_of({})

    def translate(
        self,
        texts: Union[str, Sequence[str]],
        *,
        drafts: Any = None,
        details: bool = False,
        alignment: bool = False,
        **options: Any,
    ) -> Any:
        """Translate text.

        Args:
            texts: a sentence, or a list of sentences. White space around a sentence is ignored, and
                an empty one has an empty translation.
            drafts: earlier translations to verify, which reduce the number of steps if they are
                similar to the model's translation: a string for a sentence; for a list of
                sentences, a list with a string or ``None`` for each. A list of several drafts, best
                first, may replace a string.
            details: return :class:`Translation` objects instead of strings.
            alignment: with ``details``, align subwords, in an additional pass of the model.
            options: decoding options of fairseq and this package, ``batch_size`` and
                ``max_tokens``, see :func:`load`. ``decoding`` is ``"greedy"`` by default, and
                ``"beam"`` if ``beam`` or ``nbest`` is above 1 or ``sampling`` is given.

        Returns:
            for a sentence, a string or a :class:`Translation`, or a list of ``nbest`` of these,
            best first, if ``nbest`` is above 1; for a list of sentences, a list of these results

        Raises:
            TypeError: for anything but text.
            ValueError: for an option that is unknown or not supported by the method.
            SentenceError: without ``details``, for a sentence that is too long, that the tokeniser
                rejects or whose score is not finite. With ``details``, nothing is raised, but the
                sentence's :class:`Translation` has an ``error``.
        """
        if alignment and not details:
            raise ValueError(
                "alignment True: requires details=True, since strings have no alignment"
            )
        request = self._request_of(options) if options else self._usual
        is_one = isinstance(texts, str)
        lines, own_drafts = lines_and_drafts(texts, drafts)
        if len(lines) == 1 and lines[0] and not alignment:
            job = self._job(lines[0], request, own_drafts[0])
            if job is not None:
                result = self.decoded_alone(job, details, options)
                return result if is_one else [result]
        encoded = [self._codec.encode(line) for line in lines]
        tokens_of_drafts = None
        if drafts is not None:
            self.task.check_token_order("drafts")
            tokens_of_drafts = as_tensors([self._codec.draft(own or ()) for own in own_drafts])
        found, stripped = self._hypotheses(lines, encoded, request, alignment, tokens_of_drafts)
        results: list[Any] = []
        for best, source in zip(found, encoded):
            if isinstance(best, Problem):
                failed = Translation(None, error=str(best))
                own: Any = [failed] if details else None
            elif not best:
                own = [Translation("") if details else ""]
            else:
                assert isinstance(source, list)
                alignments = [one["alignment"] if alignment else None for one in best]
                own = self._written(source, stripped, list(map(_output, best)), details, alignments)
            results.append(own[0] if own is not None and request.nbest == 1 else own)
        if not details:
            errors = {
                number: str(best) for number, best in enumerate(found) if isinstance(best, Problem)
            }
            if errors:
                raise SentenceError(errors, results)
        return results[0] if is_one else results

    @property
    def source_lang(self) -> Optional[str]:
        """The language of the sources, if the model has one."""
        return getattr(self.task._options, "source_lang", None)

    @property
    def target_lang(self) -> Optional[str]:
        """The language of the translations, if the model has one."""
        return getattr(self.task._options, "target_lang", None)

    def n_best(self, options: dict[str, Any]) -> int:
        """See :meth:`.serving.translating.JoiningTranslator.n_best`."""
        return (self._request_of(options) if options else self._usual).nbest

    def job(
        self, text: str, options: dict[str, Any], draft: Optional[list[str]] = None
    ) -> Union[SentenceJob, Problem, None]:
        """See :meth:`.serving.translating.JoiningTranslator.job`."""
        return self._job(text, self._request_of(options) if options else self._usual, draft)

    def n_threads(self) -> int:
        """The number of threads per sentence, which is torch's setting."""
        return loading.n_threads()

    def _job(
        self, text: str, request: Request, draft: Optional[list[str]]
    ) -> Union[SentenceJob, Problem, None]:
        joining = self._joining(request)
        if joining is None:
            return None
        source = self._codec.encode(text)
        if isinstance(source, Problem):
            return source
        problem = SourceLimit.of(self._positions, request.max_tokens).problem(source)
        if problem is not None:
            return problem
        drafted = None
        if draft is not None:
            check_verifies(next(iter(joining.recipes.values())))
            drafted = np.array(self._codec.draft(draft), dtype=np.int64)
        elif joining.memory is not None:
            drafted = joining.memory.draft(source)
        start = self._start(source, request)
        written = partial(self._written, source, joining.stripped)
        recipe = joining.recipe(start.bos, start.prefix)
        return SentenceJob(recipe, start.source, request.nbest, written, drafted)

    def _start(self, source: list[int], request: Request) -> Start:
        """The arguments that the task passes to its generator for a sentence.

        Args:
            source: tokens with EOS.
        """
        if self._starts_as_fairseq:
            return Start(np.array(source))
        generator, _ = self._recorded(torch.tensor(source), request)
        prefix = () if generator.prefix is None else tuple(generator.prefix[0].tolist())
        return Start(generator.sample["net_input"]["src_tokens"][0].numpy(), generator.bos, prefix)

    @cached_property
    def _starts_as_fairseq(self) -> bool:
        """Whether the task passes only the unchanged sources to generators."""
        step = type(self.task).inference_step
        is_plain = step is FairseqTask.inference_step
        return is_plain and self._direct_batches(torch.tensor([self._eos])).is_possible

    @cached_property
    def _changes_hypotheses(self) -> bool:
        """Whether the task changes the result of a generator."""
        if self._starts_as_fairseq:
            return False
        generator, returned = self._recorded(torch.tensor([self._eos]), self._usual)
        return returned is not generator.hypotheses

    def _recorded(self, source: Tensor, request: Request) -> tuple[RecordingGenerator, Any]:
        """A recording generator that the task has called for a sentence, and the task's result."""
        generator = RecordingGenerator(self.task.target_dictionary.eos())
        (batch,) = self._batches(None, [source], request)
        return generator, self.task.inference_step(generator, self._models, batch)

    def exported(self) -> dict[str, Any]:
        """The content of a bundle of the models with the options given to :func:`load`.

        Raises:
            ValueError: for a model, a task, an option or a tokeniser that bundles do not support.
        """
        generator = self._built(self._usual.decoding)
        n_source = SourceLimit.of(self._positions, None).most
        if not isinstance(generator, DecodingGenerator):
            raise ValueError(
                "--decoding fairseq: not supported by bundles; use a method of this package"
            )
        recipe = generator.recipe(n_source or MOST_POSITIONS)
        if recipe is None:
            raise ValueError(
                f"--decoding {generator.name}: bundles do not support this method or its options; "
                f"use {any_joining()} without --shortlist and --sampling, with models that "
                "compiled code supports"
            )
        if self._changes_hypotheses:
            raise ValueError(
                f"{type(self.task).__name__}: changes translations after decoding, which bundles "
                "do not support"
            )
        (before, behind), bos, prefix = self._surroundings()
        assert generator.search is not None
        parts = generator.search.parts(n_source or MOST_POSITIONS)
        return {
            "models": parts,
            "recipe": replace(recipe, bos=recipe.bos if bos is None else bos, prefix=prefix),
            "method": generator.name,
            "most_beam": len(self.task.target_dictionary) - 1,
            "nbest": self._usual.nbest,
            "sources": (n_source, before, behind),
            "stripped": sorted(stripped_by(generator)),
            "languages": (self.source_lang, self.target_lang),
            "codec": self._codec,
        }

    def _surroundings(
        self,
    ) -> tuple[tuple[list[int], list[int]], Optional[int], tuple[int, ...]]:
        """The tokens that the task adds before and after a source, and those that it forces.

        Raises:
            ValueError: if these depend on the source.
        """
        seen: set[Any] = set()
        for n in (1, 2, 5):
            unk, eos = self.task.source_dictionary.unk(), self.task.source_dictionary.eos()
            source = [*[unk] * n, eos]
            start = self._start(source, self._usual)
            tokens = start.source.tolist()
            first = next(
                (at for at in range(len(tokens)) if tokens[at : at + len(source)] == source), None
            )
            around = None
            if first is not None:
                around = tuple(tokens[:first]), tuple(tokens[first + len(source) :])
            seen.add((around, start.bos, start.prefix))
        if len(seen) > 1 or None in (around for around, _, _ in seen):
            raise ValueError(
                f"{type(self.task).__name__}: changes sources in a way that bundles do not support"
            )
        ((around, bos, prefix),) = seen
        return (list(around[0]), list(around[1])), bos, prefix

    def _joining(self, request: Request) -> Optional[Joining]:
        """The decoding in running batches; ``None`` if the request does not support it."""
        # Building a generator draws a seed or empties the file of statistics.
        acts = request.decoding.get("sampling") or request.decoding.get("decoding_stats")
        if request.key is None or self._device != "cpu" or acts:
            return None
        return self._remembered(request.key, lambda: self._new_joining(request.decoding))

    def _new_joining(self, decoding: dict[str, Any]) -> Optional[Joining]:
        generator = self._built(decoding)
        recipe = None
        if isinstance(generator, DecodingGenerator):
            n_source = SourceLimit.of(self._positions, None).most
            recipe = generator.recipe(n_source or MOST_POSITIONS)
        if recipe is None or self._changes_hypotheses:
            return None
        memory = generator.drafts if isinstance(generator.drafts, TranslationMemory) else None
        return Joining({(recipe.bos, ()): recipe}, stripped_by(generator), memory)

    def _written(
        self,
        source: list[int],
        stripped: set[int],
        outputs: Sequence[Output],
        details: bool,
        alignments: Iterable[Optional[Alignment]] = (),
    ) -> list[Any]:
        """Strings or :class:`Translation` objects for the outputs of a sentence."""
        codec = self._codec
        texts = [
            codec.decode([token for token in output.tokens.tolist() if token not in stripped])
            for output in outputs
        ]
        if not details:
            return texts
        source_words = codec.words(codec.source, source)
        return [
            Translation.of(
                text,
                own.tokens.tolist(),
                own.positional_scores.tolist(),
                own.score,
                stripped,
                partial(codec.words, codec.target),
                source_words,
                alignment,
            )
            for text, own, alignment in zip_longest(texts, outputs, alignments)
        ]

    def _request_of(self, options: dict[str, Any]) -> Request:
        """
        Raises:
            ValueError: for an option that is unknown, not supported by the method, or one of
                :data:`OF_COMMANDS`.
        """
        merged = {**self._options, **options}
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
        request = Request(merged, key_of(merged), nbest, *limits)
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

    def _built(self, options: dict[str, Any]) -> Any:
        args = self._args(options)
        generator = self.task.build_generator(self._models, args)
        # The task sets it to 1 for a method with one hypothesis, even if fairseq's default of 5 was
        # given explicitly.
        if args.beam != options.get("beam", args.beam):
            raise ValueError(
                f"--beam {options['beam']}: --decoding {generator.name} keeps one hypothesis; "
                "remove --beam or use --decoding beam"
            )
        return generator

    def _hypotheses(
        self,
        lines: list[str],
        encoded: list[Union[list[int], Problem]],
        request: Request,
        alignment: bool,
        drafts: Optional[Sequence[Tensor]],
    ) -> tuple[list[Union[list[Hypothesis], Problem]], set[int]]:
        """Decode.

        Args:
            drafts: the draft of each line, or ``None``.

        Returns:
            for each line, its best hypotheses (none for an empty line) or its problem; and the
            tokens that are not part of the text
        """
        limit = SourceLimit.of(self._positions, request.max_tokens)
        found: list[Union[list[Hypothesis], Problem]] = []
        numbers, kept = [], []
        for number, (line, source) in enumerate(zip(lines, encoded)):
            if isinstance(source, Problem):
                found.append(source if line else [])
                continue
            problem = limit.problem(source)
            found.append(problem or LEFT_OUT if line else [])
            if line and problem is None:
                numbers.append(number)
                kept.append(source)
        if not numbers:
            return found, set()
        tokens = as_tensors(kept)
        with self._kept.lent(request.key, lambda: self._built(request.decoding)) as generator:
            own_drafts = drafts and [drafts[number] for number in numbers]
            for place, best in self._decoded(generator, tokens, request, alignment, own_drafts):
                found[numbers[place]] = best
            stripped = stripped_by(generator)
        return found, stripped

    def _decoded(
        self,
        generator: Any,
        tokens: Sequence[Tensor],
        request: Request,
        alignment: bool,
        drafts: Optional[Sequence[Tensor]],
    ) -> Iterator[tuple[int, Union[list[Hypothesis], Problem]]]:
        """Yield the best hypotheses of each sentence with its place in the list."""
        if drafts and not isinstance(generator, DecodingGenerator):
            raise ValueError("drafts: not supported by decoding fairseq; use decoding greedy")
        for batch in self._batches(generator, tokens, request):
            if self._device != "cpu":
                batch = utils.apply_to_sample(lambda tensor: tensor.to(self._device), batch)
            given_to_task = (self.task, generator, self._models, batch)
            best = list(decoded(*given_to_task, request.nbest, drafts))
            if alignment:
                self._align(batch, [found for _, found in best])
            yield from best

    def _batches(
        self, generator: Any, tokens: Sequence[Tensor], request: Request
    ) -> Iterable[dict[str, Any]]:
        direct = self._direct_batches(tokens[0])
        batch_size, max_tokens = request.batch_size, request.max_tokens
        if isinstance(generator, Streaming):
            generator.capacity = Capacity(batch_size, max_tokens)
            batch_size, max_tokens = given(generator.options.stream_buffer, STREAM_BUFFER), None
        if not direct.is_possible:
            limits = Namespace(
                max_tokens=max_tokens, batch_size=batch_size, required_batch_size_multiple=1
            )
            return batches_of(self.task, tokens, limits, self._positions, seed=1)
        if len(tokens) == 1:
            return [direct.single(tokens[0])]
        return direct.several(tokens, max_tokens, batch_size)

    def _direct_batches(self, tokens: Tensor) -> DirectBatches:
        """
        Args:
            tokens: an example sentence, int64 ``[n]`` with EOS.
        """
        if self._direct is None:
            self._direct = DirectBatches(self.task, tokens)
            self._direct.is_possible &= makes_batches_as_fairseq(type(self.task))
        return self._direct

    def _align(self, batch: dict[str, Any], best: list[Union[list[Hypothesis], Problem]]) -> None:
        """Set the alignments of the hypotheses of a batch."""
        self.task.check_token_order("alignment True")
        pairs = [
            (row, hypothesis)
            for row, found in enumerate(best)
            if not isinstance(found, Problem)
            for hypothesis in found
        ]
        if not pairs:
            return
        rows = [row for row, _ in pairs]
        inputs = batch["net_input"]
        alignments = hard_alignments(
            self._models,
            inputs["src_tokens"][rows],
            inputs["src_lengths"][rows],
            [hypothesis["tokens"] for _, hypothesis in pairs],
            self._pad,
            self._eos,
        )
        for (_, hypothesis), found in zip(pairs, alignments):
            hypothesis["alignment"] = found


def _output(hypothesis: Hypothesis) -> Output:
    """A hypothesis of any generator, like those of compiled searches."""
    names = ("tokens", "positional_scores")
    tokens, scores = (hypothesis[name].cpu().numpy() for name in names)
    return Output(tokens, scores, float(hypothesis["score"]))


def stripped_by(generator: Any) -> set[int]:
    """The tokens that are stripped from a generator's output."""
    eos = getattr(generator, "eos", None)
    return getattr(generator, "symbols_to_strip_from_output", set[int]() if eos is None else {eos})
