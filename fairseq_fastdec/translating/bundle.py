"""Translates with a bundle, without torch and fairseq."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from ..data.model_files import PathLike
from ..engine.kernels import loading
from ..engine.rules import SearchRules
from ..engine.searches import Recipe, SourceSentence
from .alignments import kind_of
from .bundle_file import read
from .bundle_options import search_of
from .generation_options import HONOURED, check_kinds, check_values, shown
from .glossary import Glossary, glossary_of, with_glossary
from .languages import Languages, Pair, Surroundings, chosen_pair
from .phrases import problem_of
from .registry import ANY_DRAFTED
from .results import Problem
from .sentences import Sentence
from .shortlist import Shortlist
from .text import codec_of
from .translation_memory import TranslationMemory
from .translator import Found, SentenceJob, Translator, check_verifies

# fairseq's search options; all but unnormalized have the name of the field of SearchRules.
RULES = {"unnormalized"} | {field.name for field in fields(SearchRules)} & HONOURED.keys()
OPTIONS = sorted({"decoding", "beam", "nbest", "temperature", "alignment", "glossary"} | RULES)


class BundleRequest(NamedTuple):
    """The options of a call.

    Attributes:
        recipe: the search.
        nbest: the number of hypotheses to return.
        around: the tokens around a sentence.
        alignment: a kind of :mod:`~.alignments`; ``None`` without alignments.
        pair: the languages.
        glossary: terms with prescribed translations; ``None`` for none.
    """

    recipe: Recipe
    nbest: int
    around: Surroundings
    alignment: Optional[str] = None
    pair: Pair = Pair(None, None)
    glossary: Optional[Glossary] = None


class BundleTranslator(Translator):
    """Translates with a bundle. Processes share one copy of the weights."""

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
        super().__init__(codec_of(**content["text"]))
        self.source_lang, self.target_lang = content["languages"]
        formats = content.get("formats")
        self.languages = None if formats is None else Languages(**formats)
        self._content, self._removed = content, set(content["stripped"])
        self.models = [part.built() for part in content["models"]]
        self._options = with_glossary({**content["options"], **options})
        self._shortlist = _shortlist(content.get("shortlist"))
        self._usual = self._new_request({})
        self._memory: Optional[TranslationMemory] = None
        self._check_glossary()

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
                ``unkpen``, ``min_len``, ``max_len_a``, ``max_len_b``, ``no_repeat_ngram_size``,
                ``temperature``, ``lm_weight``, ``alignment`` and ``glossary``. Options that are not
                given have the values of the export.

        Raises:
            OSError: if the file cannot be read, or if there is no compiled code.
            ValueError: for a bundle that is truncated, has changed or has another version, and for
                an option that is unknown or that the method cannot honour.
        """
        translator = cls(read(path), options)
        translator._memory = translator._opened_memory(memory_source, memory_target)
        return translator

    def _several(
        self,
        sentences: Sequence[Sentence],
        request: BundleRequest,
        details: bool,
    ) -> list[Found]:
        jobs = self._jobs(sentences, request, details)
        found = dict(self._results(jobs, request, details, in_order=False))
        return [found[number] for number in range(len(sentences))]

    def _job(self, sentence: Sentence, request: BundleRequest) -> Union[SentenceJob, Problem]:
        recipe, n_best, draft = request.recipe, request.nbest, sentence.draft
        if draft is not None:
            check_verifies(recipe)
        numbers = self.codec.encode(sentence.text)
        if isinstance(numbers, Problem):
            return numbers
        most = self._content["sources"][0]
        if most is not None and len(numbers) > most:
            return Problem(
                "too long",
                f"{len(numbers)} tokens including EOS; the model reads at most {most}",
            )
        tokens = np.array(request.around.around(numbers))
        restrictions = self._restrictions(sentence, request)
        problem = problem_of(restrictions, recipe, len(tokens))
        if problem is not None:
            return problem
        drafted = None
        if draft is not None:
            drafted = np.array(self.codec.draft(draft), dtype=np.int64)
        elif self._memory is not None and recipe.verifies_drafts:
            drafted = self._memory.draft(numbers)
        written, kind = partial(self._written, numbers, self._removed), request.alignment
        if kind is not None:
            places = self._places(numbers, len(request.around.before), recipe.rules.pad)
            written = partial(written, alignment=kind, places=places)
        source = SourceSentence(tokens, drafted, kind is not None, restrictions)
        return SentenceJob(recipe, source, n_best, written)

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
        if not self._usual.recipe.verifies_drafts:
            raise ValueError(
                f"memory_source {source}: the bundle's method does not verify drafts; choose "
                f"decoding {ANY_DRAFTED}, or remove it"
            )
        codec = self.codec
        tokens = (partial(codec.tokens, words) for words in (codec.source, codec.target))
        return TranslationMemory(str(source), str(target), *tokens)

    def _new_request(self, options: dict[str, Any]) -> BundleRequest:
        merged = {**self._options, **options}
        names = (merged.pop("source", None), merged.pop("target", None))
        usual = Pair(self.source_lang, self.target_lang)
        pair = chosen_pair(self.languages, usual, *names)
        alignment = kind_of(merged.pop("alignment", False))
        glossary = glossary_of(merged.pop("glossary", None))
        _check(merged)
        key = tuple(sorted((name, type(value), value) for name, value in merged.items()))
        recipe, n_best = self._remembered(key, lambda: self._checked_request(merged))
        if alignment is not None and not recipe.aligns:
            raise ValueError(
                f"alignment {alignment}: a model of the bundle has no attention that aligns "
                "subwords while it decodes; translate with its checkpoint, or remove it"
            )
        # Not remembered: there can be thousands of pairs, and all of them share one search.
        request = self._of_pair(pair, recipe, n_best)
        return request._replace(alignment=alignment, pair=pair, glossary=glossary)

    def _of_pair(self, pair: Pair, recipe: Recipe, n_best: int) -> BundleRequest:
        """The request of a pair; requests of other pairs share batches with it."""
        codec = self.codec
        if self.languages is None:
            _, before, behind = self._content["sources"]
            behind = (codec.source.eos_index, *behind)
            around = Surroundings(before, behind, recipe.bos, recipe.prefix)
            return BundleRequest(recipe, n_best, around)
        around = self.languages.surroundings(pair, codec.source, codec.target)
        return BundleRequest(recipe.beginning(around.bos, around.prefix), n_best, around)

    def _checked_request(self, options: dict[str, Any]) -> tuple[Recipe, int]:
        """The search, and the number of hypotheses to return.

        Raises:
            ValueError: for an option that is unknown or that the method cannot honour.
        """
        content, methods = self._content, self._content["methods"]
        n_best, beam = options.get("nbest", 1), options.get("beam")
        has_beams = "beam" in search_of(*methods[content["method"]]).options
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
        search = search_of(*methods[method])
        if "beam" in search.options:
            width = search.n_best if beam is None else beam
            width_used = min(width, content["most_beam"])
            search = search._replace(options={**search.options, "beam": width_used})
            if n_best > width:
                raise ValueError(f"nbest {n_best}: must be at most beam {width}; increase beam")
        elif max(n_best, beam or 1) > 1:
            raise ValueError(
                f"beam {beam}, nbest {n_best}: decoding {method} keeps one hypothesis; use "
                "decoding beam"
            )
        given = {name: value for name, value in options.items() if name in RULES}
        has_lm = any(part.is_language_model for part in content["models"])
        if given.get("lm_weight", 0) != 0 and not has_lm:
            raise ValueError(
                f"lm_weight {given['lm_weight']}: the bundle has no language model; export it with "
                "--lm-path"
            )
        if "unnormalized" in given:
            given["normalize"] = not given.pop("unnormalized")
        rules = replace(SearchRules(**content["rules"]), **given)
        rules.no_repeat_ngram_size = max(rules.no_repeat_ngram_size, 0)
        temperature = options.get("temperature", content["temperature"])
        start = (content["bos"], tuple(content["prefix"]))
        own = (self.models, rules, search, temperature, *start)
        return Recipe(*own, shortlist=self._shortlist), n_best


def _shortlist(content: Optional[dict[str, Any]]) -> Optional[Shortlist]:
    return None if content is None else Shortlist(**content)


def _check(options: dict[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            raise ValueError(f"{name}: not an option of a bundle; choose from {', '.join(OPTIONS)}")
    if not isinstance(options.get("decoding", ""), str):
        raise ValueError(f"decoding {shown(options['decoding'])}: must be the name of a method")
    check_kinds(SimpleNamespace(**options))
    check_values(SimpleNamespace(**options))
