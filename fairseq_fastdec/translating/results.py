"""Translations, and the errors of sentences that could not be translated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

# Some programs begin UTF-8 with it. It is no part of a text.
BYTE_ORDER_MARK = "\ufeff"
# Pairs of a source and a target subword position, from 0; or probabilities.
Alignment = Union[list[tuple[int, int]], list[list[float]]]


class Problem(str):
    """The reason why a line cannot be translated: its kind, and details with a remedy.

    Attributes:
        kind: a short category, by which such lines are counted.
    """

    kind: str

    def __new__(cls, kind: str, details: str) -> "Problem":
        problem = super().__new__(cls, f"{kind}: {details}")
        problem.kind = kind
        return problem

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (self.kind, self.removeprefix(f"{self.kind}: "))


NOT_FINITE = Problem(
    "not finite",
    "its score is not a finite number; check the checkpoint, or give --engine-precision fp32",
)


@dataclass(frozen=True)
class Translation:
    """A translation of a sentence, or the error if it could not be translated.

    Attributes:
        text: detokenised; ``None`` if the sentence could not be translated.
        score: fairseq's score of a hypothesis: natural logarithm, divided by the length to the
            power of ``lenpen`` unless ``unnormalized``.
        tokens: target subwords, without EOS.
        positional_scores: natural logarithms, one for each of ``tokens`` and one for EOS.
        source_tokens: source subwords, without EOS.
        alignment: see :mod:`~.alignments`; ``None`` unless it was asked for.
        error: why the sentence could not be translated, with a remedy; otherwise ``None``.
    """

    text: Optional[str]
    score: float = 0.0
    tokens: tuple[str, ...] = ()
    positional_scores: tuple[float, ...] = ()
    source_tokens: tuple[str, ...] = ()
    alignment: Optional[Alignment] = None
    error: Optional[Problem] = None


class SentenceError(ValueError):
    """Raised if sentences of a call could not be translated.

    Attributes:
        errors: the reason for each such sentence, by its number from 0.
        translations: the result of the call, with ``None`` for these sentences.
    """

    def __init__(self, errors: Mapping[int, str], translations: list[Any]) -> None:
        number, error = next(iter(errors.items()))
        others = f" ({len(errors) - 1} more sentences failed)" if len(errors) > 1 else ""
        super().__init__(
            f"sentence {number} (from 0): {error}{others}; details=True returns errors along with "
            "the translations of the other sentences"
        )
        self.errors = errors
        self.translations = translations

    def __reduce__(self) -> tuple[Any, ...]:
        return SentenceError, (self.errors, self.translations)


def texts_of(texts: Any, name: str = "texts") -> list[Any]:
    """The texts of a call, which may be an iterable that can be read only once.

    Args:
        name: the argument, for the message.

    Raises:
        TypeError: for anything but a text or an iterable.
    """
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"{name}: of type {type(texts).__name__}; give a text, or a list of texts")
    return list(texts)


def stripped(text: Any, number: int, name: str = "texts") -> str:
    """A text without leading and trailing white space, and without a byte order mark.

    Args:
        number: the number of the text in a call, for the message.
        name: the argument, likewise.

    Raises:
        TypeError: for anything but text.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"{name}: sentence {number} (from 0) is of type {type(text).__name__}; give a text, or "
            "a list of texts"
        )
    return text.strip().removeprefix(BYTE_ORDER_MARK).lstrip()
