"""Translations, and the reasons why there are none."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

# Of subwords: pairs of a source and a target position, from 0.
Alignment = list[tuple[int, int]]


class Problem(NamedTuple):
    """Why a line cannot be translated.

    Attributes:
        kind: a few words, by which such lines are counted.
        details: a sentence's end, with what can be done.
    """

    kind: str
    details: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.details}"


NOT_FINITE = Problem(
    "not finite",
    "its score is no finite number; check the checkpoint, or give --engine-precision fp32",
)


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence, or the reason why there is none.

    Attributes:
        text: detokenised; ``None`` if the sentence could not be translated.
        score: natural logarithm, divided by the length to the power of ``lenpen`` unless
            ``unnormalized``: fairseq's score of a hypothesis.
        tokens: target subwords, without EOS.
        positional_scores: natural logarithms, one for each of ``tokens`` and one for EOS.
        source_tokens: source subwords, without EOS.
        alignment: pairs of a source and a target subword, numbered from 0; ``None`` unless
            ``alignment=True``.
        error: why the sentence could not be translated, with what to do; otherwise ``None``.
    """

    text: Optional[str]
    score: float = 0.0
    tokens: tuple[str, ...] = ()
    positional_scores: tuple[float, ...] = ()
    source_tokens: tuple[str, ...] = ()
    alignment: Optional[Alignment] = None
    error: Optional[str] = None

    @classmethod
    def of(
        cls,
        text: str,
        tokens: Sequence[int],
        scores: Sequence[float],
        score: float,
        stripped: Collection[int],
        words: Callable[[list[int]], str],
        source: str,
        alignment: Optional[Alignment] = None,
    ) -> "Translation":
        """A translation from the tokens of a search.

        Args:
            tokens: ending in EOS, with ``scores`` for each.
            stripped: the tokens that are no text.
            words: the words of tokens, joined by spaces.
            source: the source's words, joined by spaces.
        """
        kept = [place for place, token in enumerate(tokens) if token not in stripped]
        return cls(
            text,
            score,
            tuple(words([tokens[place] for place in kept]).split()),
            (*(scores[place] for place in kept), scores[-1]),
            tuple(source.split()),
            alignment,
        )


class SentenceError(ValueError):
    """Some sentences of a call could not be translated.

    Attributes:
        errors: the reason for each of them, by its number from 0.
        translations: what the call would have returned, with ``None`` for each of them.
    """

    def __init__(self, errors: dict[int, str], translations: list[Any]) -> None:
        number, error = next(iter(errors.items()))
        others = f" ({len(errors) - 1} more sentences failed)" if len(errors) > 1 else ""
        super().__init__(
            f"sentence {number} (from 0): {error}{others}; details=True returns errors beside the "
            "translations of the other sentences"
        )
        self.errors = errors
        self.translations = translations

    def __reduce__(self) -> tuple[Any, ...]:
        return SentenceError, (self.errors, self.translations)


def stripped_lines(texts: Sequence[str]) -> list[str]:
    """Texts without white space around them.

    Raises:
        TypeError: for anything else than text.
    """
    try:
        return [text.strip() for text in texts]
    except AttributeError as error:
        number, text = next(
            (number, text) for number, text in enumerate(texts) if not isinstance(text, str)
        )
        raise TypeError(
            f"texts: sentence {number} (from 0) is of type {type(text).__name__}; give text, or a "
            "list of texts"
        ) from error
