"""The languages of a model that translates between many, and the tokens that name them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Optional


class Pair(NamedTuple):
    """A source and a target language, by the model's names."""

    source: str
    target: str


@dataclass(frozen=True)
class Languages:
    """How sentences name their languages.

    A format is a sequence of symbols, separated by spaces, in which ``{source}`` and ``{target}``
    are the tokens of the languages and ``{text}`` the tokens of the sentence.

        NLLB-200, M2M-100, mBART-50    {source} {text} </s>        </s> {target}
        mBART-25                       {text} </s> {source}        {target}
        Opus-MT to several languages   {target} {text} </s>        </s>
        BART                           <s> {text} </s>             </s> <s>

    Attributes:
        tokens: the symbol of each language, by the language's name; empty for one pair.
        source_format: the encoder's input.
        target_format: the decoder's first input, followed by the forced first tokens of outputs.
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    source_format: str = "{text} </s>"
    target_format: str = "</s>"

    def named(self, language: str, option: str) -> str:
        """The model's name of a language, which can also be given by an ISO code.

        Args:
            option: where the language was given, for the message.

        Raises:
            ValueError: for a language that the model does not have, or an ambiguous code.
        """
        if language in self.tokens:
            return language
        found = sorted(name for name in self.tokens if same_language(name, language))
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(f"{option} {language}: is ambiguous; choose from {', '.join(found)}")
        raise ValueError(
            f"{option} {language}: not a language of the model; choose from "
            f"{', '.join(self.tokens)}"
        )

    def symbols(self, pair: Pair) -> dict[str, Optional[str]]:
        """The symbols of a pair, by the places of a format."""
        return {
            "{source}": self.tokens.get(pair.source),
            "{target}": self.tokens.get(pair.target),
        }
