"""The languages of a model that translates between many, and the tokens that name them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from .language_codes import are_same, plain

TEXT = "{text}"
# The number of languages that an error lists.
MOST_NAMED = 20


class Pair(NamedTuple):
    """A source and a target language, by the model's names; ``None`` if the model has none."""

    source: Optional[str]
    target: Optional[str]


class Surroundings(NamedTuple):
    """The tokens around a sentence and its translation.

    Attributes:
        before, behind: the source tokens before and after the words of a sentence.
        bos: the decoder's first input.
        prefix: forced first tokens of the output.
    """

    before: tuple[int, ...]
    behind: tuple[int, ...]
    bos: int
    prefix: tuple[int, ...]

    def around(self, source: list[int]) -> list[int]:
        """The encoder's input for a sentence, whose tokens end in EOS."""
        return [*self.before, *source[:-1], *self.behind]


@dataclass(frozen=True)
class Languages:
    """The languages of a model, and how its inputs name them.

    A format is a sequence of symbols, separated by spaces, in which ``{source}`` and ``{target}``
    are the tokens of the languages and ``{text}`` is the sentence:

        NLLB-200, M2M-100, mBART-50    {source} {text} </s>        </s> {target}
        mBART-25                       {text} </s> {source}        {target}
        Opus-MT to several languages   {target} {text} </s>        </s>
        BART                           <s> {text} </s>             </s> <s>

    Attributes:
        tokens: the symbol of each language, by its name; empty for a model of one pair.
        source_format: the encoder's input.
        target_format: the decoder's first input, followed by the forced first tokens of outputs.
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    source_format: str = "{text} </s>"
    target_format: str = "</s>"

    def named(self, language: str, option: str) -> str:
        """The model's name of a language, which can also be given by an ISO code.

        Args:
            option: the name of the option with the language, for the message.

        Raises:
            ValueError: for a language that the model does not have, or an ambiguous code.
        """
        if language in self.tokens:
            return language
        spelt = [name for name in self.tokens if plain(name) == plain(language)]
        found = spelt or [name for name in self.tokens if are_same(name, language)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(f"{option} {language}: ambiguous; choose from {', '.join(found)}")
        names = list(self.tokens)
        more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
        raise ValueError(
            f"{option} {language}: not a language of the model; choose from "
            f"{', '.join(names[:MOST_NAMED])}{more}"
        )

    def pair(self, source: Optional[str], target: Optional[str]) -> Pair:
        """The model's names of two languages; see :meth:`named`."""
        if not self.tokens or source is None or target is None:
            return Pair(source, target)
        reads_source = "{source}" in self.source_format + self.target_format
        return Pair(
            self.named(source, "source") if reads_source else source, self.named(target, "target")
        )

    def surroundings(self, pair: Pair, source: Any, target: Any) -> Surroundings:
        """The tokens of a pair.

        Args:
            source, target: the dictionaries, see :mod:`.text`.

        Raises:
            ValueError: for a format without ``{text}`` or with a symbol that is in no dictionary.
        """
        names = {
            "{source}": self.tokens.get(pair.source or "", ""),
            "{target}": self.tokens.get(pair.target or "", ""),
        }
        symbols = [names.get(symbol, symbol) for symbol in self.source_format.split()]
        if symbols.count(TEXT) != 1:
            raise ValueError(f"--source-format {self.source_format}: needs one {TEXT}")
        place = symbols.index(TEXT)
        before, behind = symbols[:place], symbols[place + 1 :]
        first = [names.get(symbol, symbol) for symbol in self.target_format.split()]
        if not first:
            raise ValueError("--target-format: needs at least the decoder's first input")
        bos, *prefix = _numbers(target, first, "--target-format")
        return Surroundings(
            _numbers(source, before, "--source-format"),
            _numbers(source, behind, "--source-format"),
            bos,
            tuple(prefix),
        )

    def symbols_of(self, dictionary: Any) -> set[int]:
        """The tokens that name languages, which are not part of a text."""
        numbers = (dictionary.indices.get(symbol) for symbol in self.tokens.values())
        return {number for number in numbers if number is not None}


def chosen_pair(
    languages: Optional[Languages], usual: Pair, source: Optional[str], target: Optional[str]
) -> Pair:
    """The pair of a call.

    Args:
        languages: of a model that translates between many; ``None`` for one pair.
        usual: the pair of calls that do not name languages.
        source, target: languages, as given in the call.

    Raises:
        ValueError: for a language that the model does not have.
    """
    if source is None and target is None:
        return usual
    for option, name in (("source", source), ("target", target)):
        if name is not None and not isinstance(name, str):
            raise ValueError(f"{option} {name!r}: must be the name of a language")
    if languages is not None and languages.tokens:
        return languages.pair(source or usual.source, target or usual.target)
    for option, name, own in zip(("source", "target"), (source, target), usual):
        if name is not None and own is not None and name != own and not are_same(own, name):
            raise ValueError(f"{option} {name}: the model has {own}")
    return usual


def _numbers(dictionary: Any, symbols: list[str], option: str) -> tuple[int, ...]:
    for symbol in symbols:
        if symbol not in dictionary.indices:
            raise ValueError(f"{option}: the dictionary does not have {symbol or 'the language'!r}")
    return tuple(dictionary.indices[symbol] for symbol in symbols)
