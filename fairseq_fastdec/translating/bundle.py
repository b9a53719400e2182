"""Translates with a bundle, without torch and fairseq."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Optional, Union

import numpy as np

from ..data.model_files import PathLike
from ..engine.kernels import loading
from ..engine.rules import SearchRules
from ..engine.searches import BeamOptions, BlockOptions, JacobiOptions, Output, Recipe
from .bundle_file import read
from .generation_options import HONOURED, check_kinds, check_values, shown
from .registry import ANY_DRAFTED
from .results import Problem, SentenceError, Translation
from .text import codec_of
from .translation_memory import TranslationMemory
from .translator import JoiningTranslator, SentenceJob, check_verifies, lines_and_drafts

KINDS = {kind.__name__: kind for kind in (BeamOptions, BlockOptions, JacobiOptions)}
# fairseq's search options; all but unnormalized have the name of the field of SearchRules.
RULES = {"unnormalized"} | {field.name for field in fields(SearchRules)} & HONOURED.keys()
OPTIONS = sorted({"decoding", "beam", "nbest", "temperature"} | RULES)


class BundleTranslator(JoiningTranslator):
    """Translates with a bundle; created by :func:`fairseq_fastdec.load`. Methods are thread-safe.

    Sentences of concurrent calls share batches. Processes share one copy of the weights.

    Attributes:
        source_lang, target_lang: the languages, if the checkpoint names them.
    """

    def __init__(self, content: dict[str, Any], options: dict[str, Any]) -> None:
        """
        Args:
            content: the content of a bundle, see :func:`...tools.export.content_of`.
            options: see :meth:`of`.

        Raises:
            OSError: if there is no compiled code.
            ValueError: for an option that is unknown or that the method cannot honour.
        """
        if loading.library() is None:
            raise OSError(
                "bundles need compiled code; install a C++ compiler such as g++. "
                f"{loading.how_to_install()}"
            )
        super().__init__()
        self.source_lang, self.target_lang = content["languages"]
        self._codec = codec_of(**content["text"])
        self._content = content
        self._models = [part.built() for part in content["models"]]
        self._options = {**content["options"], **options}
        _check(self._options)
        self._usual = self._new_request(self._options)
        self._memory: Optional[TranslationMemory] = None

    @classmethod
    def of(
        cls,
        path: PathLike,
        *,
        memory_source: Optional[PathLike] = None,
        memory_target: Optional[PathLike] = None,
        **options: Any,
    ) -> "BundleTranslator":
        """Load a bundle.

        Args:
            memory_source, memory_target: files with earlier sentences and their translations, one
                per line: a translation memory, which gives drafts to sentences without one. An
                index is written next to ``memory_target`` on first use. Methods that do not verify
                drafts do not use it.
            options: the default decoding options of all calls: ``decoding`` (the method of the
                export, ``greedy`` or ``beam``), ``beam``, ``nbest``, ``lenpen``, ``unnormalized``,
                ``unkpen``, ``min_len``, ``max_len_a``, ``max_len_b``, ``no_repeat_ngram_size`` and
                ``temperature``. Options that are not given have the values of the export.

        Raises:
            OSError: if the file cannot be read, or if there is no compiled code.
            ValueError: for a bundle that is truncated, has changed or has another version, and for
                an option that is unknown or that the method cannot honour.
        """
        translator = cls(read(path), options)
        translator._memory = translator._opened_memory(memory_source, memory_target)
        return translator

    def translate(
        self,
        texts: Union[str, Sequence[str]],
        *,
        drafts: Any = None,
        details: bool = False,
        **options: Any,
    ) -> Any:
        """Translate text.

        Args:
            texts: a sentence, or a list of sentences. White space around a sentence is ignored. An
                empty sentence has an empty translation.
            drafts: earlier translations that the model verifies. The result does not depend on
                them, but takes fewer steps where they agree with it. For one sentence: a string, or
                a list of strings, best first. For a list of sentences: a list with a string, a list
                of strings or ``None`` for each.
            details: return :class:`Translation` objects instead of strings.
            options: decoding options of this call, see :meth:`of`.

        Returns:
            for one sentence a string or a :class:`Translation`, or, if ``nbest`` is above 1, a list
            of ``nbest`` of them, best first. For a list of sentences, a list of these results.

        Raises:
            TypeError: if ``texts`` or ``drafts`` has anything but text.
            ValueError: for an option that is unknown or that the method cannot honour.
            SentenceError: if a sentence cannot be translated and ``details`` is false. With
                ``details`` the sentence's :class:`Translation` has an ``error``.
        """
        is_one = isinstance(texts, str)
        lines, own_drafts = lines_and_drafts(texts, drafts)
        if len(lines) == 1 and lines[0]:
            job = self.job(lines[0], options, own_drafts[0])
            result = self.decoded_alone(job, details, options)
            return result if is_one else [result]
        n_best = self.n_best(options)
        empty: Any = Translation("") if details else ""
        results = [empty if n_best == 1 else [empty]] * len(lines)
        numbers = [number for number, line in enumerate(lines) if line]
        errors: dict[int, str] = {}
        sources = ((lines[number], own_drafts[number]) for number in numbers)
        found = self._results(sources, options, details, False)
        for place, result in found:
            number = numbers[place]
            try:
                results[number] = result()
            except SentenceError as error:
                results[number], errors[number] = None, error.errors[0]
        if errors:
            raise SentenceError(dict(sorted(errors.items())), results)
        return results[0] if is_one else results

    @property
    def verifies_drafts(self) -> bool:
        """Whether the method of calls without options verifies drafts."""
        return self._usual[0].verifies_drafts

    def n_best(self, options: dict[str, Any]) -> int:
        """See :meth:`..serving.translating.JoiningTranslator.n_best`."""
        return self._request(options)[1]

    def job(
        self, text: str, options: dict[str, Any], draft: Optional[list[str]] = None
    ) -> Union[SentenceJob, Problem]:
        """See :meth:`..serving.translating.JoiningTranslator.job`."""
        recipe, n_best = self._request(options)
        if draft is not None:
            check_verifies(recipe)
        numbers = self._codec.encode(text)
        if isinstance(numbers, Problem):
            return numbers
        most, before, behind = self._content["sources"]
        if most is not None and len(numbers) > most:
            return Problem(
                "too long",
                f"{len(numbers)} tokens including EOS; the model reads at most {most}",
            )
        tokens = np.array([*before, *numbers, *behind])
        drafted = None
        if draft is not None:
            drafted = np.array(self._codec.draft(draft), dtype=np.int64)
        elif self._memory is not None and recipe.verifies_drafts:
            drafted = self._memory.draft(numbers)
        return SentenceJob(recipe, tokens, n_best, partial(self._written, numbers), drafted)

    def _opened_memory(
        self, source: Optional[PathLike], target: Optional[PathLike]
    ) -> Optional[TranslationMemory]:
        """
        Raises:
            ValueError: for one file without the other, files that cannot be read or that differ in
                length, and a method that does not verify drafts.
        """
        if source is None and target is None:
            return None
        for name, path in (("memory_source", source), ("memory_target", target)):
            if path is None:
                raise ValueError(f"{name}: missing; a memory has sentences and their translations")
        if not self.verifies_drafts:
            raise ValueError(
                f"memory_source {source}: the bundle's method does not verify drafts; choose "
                f"decoding {ANY_DRAFTED}, or remove it"
            )
        codec = self._codec
        tokens = (partial(codec.tokens, words) for words in (codec.source, codec.target))
        return TranslationMemory(str(source), str(target), *tokens)

    def _written(self, source: list[int], outputs: Sequence[Output], details: bool) -> list[Any]:
        """Convert the outputs of a search to strings or :class:`Translation` objects."""
        stripped, results = set(self._content["stripped"]), []
        for output in outputs:
            tokens = output.tokens.tolist()
            text: Any = self._codec.decode([token for token in tokens if token not in stripped])
            if details:
                text = Translation.of(
                    text,
                    tokens,
                    output.positional_scores.tolist(),
                    output.score,
                    stripped,
                    partial(self._codec.words, self._codec.target),
                    self._codec.words(self._codec.source, source),
                )
            results.append(text)
        return results

    def _request(self, options: dict[str, Any]) -> tuple[Recipe, int]:
        """The recipe for a call's options, and the number of hypotheses to return."""
        if not options:
            return self._usual
        merged = {**self._options, **options}
        _check(merged)
        key = tuple(sorted((name, type(value), value) for name, value in merged.items()))
        return self._remembered(key, lambda: self._new_request(merged))

    def _new_request(self, options: dict[str, Any]) -> tuple[Recipe, int]:
        """
        Raises:
            ValueError: for an option that is unknown or that the method cannot honour.
        """
        content, methods = self._content, self._content["methods"]
        n_best, beam = options.get("nbest", 1), options.get("beam")
        kind, _ = methods[content["method"]]
        has_beams = kind == BeamOptions.__name__
        # By default, the beam size chooses between greedy and beam, as for a checkpoint.
        usual = content["method"]
        if max(n_best, beam or 1) > 1 and not has_beams:
            usual = "beam"
        elif usual == "beam" and beam == n_best == 1:
            usual = "greedy"
        method = options.get("decoding", usual)
        if method not in methods:
            raise ValueError(
                f"decoding {method}: the bundle has {', '.join(methods)}; export it with "
                f"--decoding {method}"
            )
        kind, arguments = methods[method]
        # Earlier versions had trees of proposals; chains have the same output.
        arguments = {name: value for name, value in arguments.items() if name != "n_in_tree"}
        search = KINDS[kind](**arguments)
        if isinstance(search, BeamOptions):
            width = search.width if beam is None else beam
            search = search._replace(width=min(width, content["most_beam"]))
            if n_best > width:
                raise ValueError(f"nbest {n_best}: must be at most beam {width}; increase beam")
        elif max(n_best, beam or 1) > 1:
            raise ValueError(
                f"beam {beam}, nbest {n_best}: decoding {method} keeps one hypothesis; use "
                "decoding beam"
            )
        given = {name: value for name, value in options.items() if name in RULES}
        if "unnormalized" in given:
            given["normalize"] = not given.pop("unnormalized")
        rules = replace(SearchRules(**content["rules"]), **given)
        rules.no_repeat_ngram_size = max(rules.no_repeat_ngram_size, 0)
        temperature = options.get("temperature", content["temperature"])
        start = (content["bos"], tuple(content["prefix"]))
        return Recipe(self._models, rules, search, temperature, *start), n_best


def _check(options: dict[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            raise ValueError(f"{name}: not an option of a bundle; choose from {', '.join(OPTIONS)}")
    if not isinstance(options.get("decoding", ""), str):
        raise ValueError(f"decoding {shown(options['decoding'])}: must be the name of a method")
    check_kinds(SimpleNamespace(**options))
    check_values(SimpleNamespace(**options))
