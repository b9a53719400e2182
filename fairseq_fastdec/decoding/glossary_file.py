"""The terms of ``--glossary``, as constraints of the sentences in which they occur."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

from fairseq.data import Dictionary

from ..engine.searches import Phrases
from ..translating.glossary import glossary_of
from ..translating.languages import Pair
from ..translating.phrases import checked
from ..translating.text import numbers_of, words_of
from .option_rules import option


@dataclass
class GlossaryOptions:
    """The option for terms in a file."""

    glossary: Optional[str] = option(
        None,
        "beam: lines of a term, a tab and its prescribed translation, which the output contains if "
        "the source contains the term: plain text if --bpe and --tokenizer are given, otherwise "
        "words as in the data",
        methods=("beam",),
        is_path=True,
    )


class GlossaryFile:
    """The terms of a file, and how sentences are read and phrases written.

    Attributes:
        plain: joins the subwords and tokens of a sentence (default: identity).
        segmented: splits a phrase into subwords (default: identity).
        pair: the languages.
    """

    def __init__(self, path: str, source: Dictionary, target: Dictionary) -> None:
        """
        Raises:
            ValueError: for a file that cannot be read, and for terms that are not valid.
        """
        self._path, self._source, self._target = path, source, target
        self._glossary = glossary_of(path)
        self.plain: Callable[[str], str] = str
        self.segmented: Callable[[str], str] = str
        self.pair = Pair(None, None)
        self._phrases: dict[str, list[int]] = {}

    def constraints_of(self, sources: Sequence[Sequence[int]]) -> list[Phrases]:
        """The phrases of each source, whose tokens may be padded.

        Raises:
            ValueError: for a translation that the model cannot write.
        """
        return list(map(self._constraints, sources))

    def _constraints(self, source: Sequence[int]) -> Phrases:
        assert self._glossary is not None
        words = self._source
        special = (words.pad(), words.eos(), words.bos())
        text = self.plain(" ".join(words_of(words, source, special)))
        return [self._phrase(own) for own in self._glossary.translations(text, self.pair)]

    def _phrase(self, text: str) -> list[int]:
        """The tokens of a translation."""
        if text not in self._phrases:
            name = f"--glossary {self._path}: the translation"
            tokens = numbers_of(self._target, self.segmented(text).split())
            self._phrases[text] = checked(name, text, tokens, self._target.unk())
        return self._phrases[text]
