"""The sentences of a call, with what the call says about each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple, Optional

from .results import stripped, texts_of


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text and the separators between them.

    Attributes:
        sentences: n strings, without white space around them.
        separators: n + 1 strings before, between and after the sentences: white space, and segments
            without letters.
    """

    sentences: list[str]
    separators: list[str]

    def join(self, sentences: Iterable[str]) -> str:
        """Join other sentences with the separators of this text."""
        pairs = zip_longest(self.separators, sentences, fillvalue="")
        return "".join(chain.from_iterable(pairs))


class Sentence(NamedTuple):
    """A sentence to translate.

    Attributes:
        text: stripped.
        draft: translations to verify, the best one first; ``None`` if none were given.
        constraints: the phrases that its translation has to contain.
        forbidden: the phrases that its translation may not contain.
    """

    text: str
    draft: Optional[list[str]] = None
    constraints: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


def sentences_of(texts: Any, **given: Any) -> list[Sentence]:
    """The sentences of a call.

    Args:
        texts, given: ``drafts``, ``constraints`` and ``forbidden``, see
            :meth:`.translator.Translator.translate`; each is read once.

    Raises:
        TypeError: for anything but text.
        ValueError: if there are not as many drafts or phrases as sentences.
    """
    if isinstance(texts, str):
        return [sentence_of(texts, 0, **given)]
    lines = texts_of(texts)
    several = {name: _listed(name, own, len(lines)) for name, own in given.items()}
    own = (dict(zip(several, values)) for values in zip(*several.values()))
    return [sentence_of(line, number, **next(own)) for number, line in enumerate(lines)]


def stream_of(texts: Iterable[str], **given: Any) -> Iterator[Sentence]:
    """Yield the sentences of a stream; see :meth:`.translator.Translator.translate_stream`.

    Raises:
        ValueError: at the end of the shorter iterable, if their lengths differ.
    """
    several = {name: own for name, own in given.items() if own is not None}
    missing = object()
    for number, (text, *own) in enumerate(zip_longest(texts, *several.values(), fillvalue=missing)):
        for name, value in zip(several, own):
            if text is missing or value is missing:
                count = "more" if text is missing else "fewer"
                raise ValueError(f"{name}: {count} than texts; give one for each text, or None")
        yield sentence_of(text, number, **dict(zip(several, own)))


def sentence_of(
    text: Any, number: int, drafts: Any = None, constraints: Any = None, forbidden: Any = None
) -> Sentence:
    """A sentence of a call; see :func:`sentences_of`.

    Args:
        number: its number, for messages.
    """
    phrases = (
        tuple(strings_of(name, own) or ())
        for name, own in (("constraints", constraints), ("forbidden", forbidden))
    )
    return Sentence(stripped(text, number), strings_of("drafts", drafts), *phrases)


def _listed(name: str, given: Any, n: int) -> list[Any]:
    """The values that were given, one for each of n sentences."""
    if given is None:
        return [None] * n
    listed = [] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if len(listed) != n:
        raise ValueError(
            f"{name}: must be one for each of {n} sentences; use None for a sentence without"
        )
    return listed


def strings_of(name: str, given: Any) -> Optional[list[str]]:
    """The strings that were given for a sentence, without empty ones; ``None`` without any.

    Raises:
        TypeError: for anything but a string, an iterable of strings or ``None``.
    """
    if given is None:
        return None
    is_iterable = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    several = list(given) if is_iterable else [given]
    if not all(isinstance(text, str) for text in several):
        raise TypeError(f"{name}: must be strings, lists of strings, or None")
    return [text for text in several if text.strip()]


def check_one(sentences: Sequence[str], number: int) -> None:
    """
    Args:
        number: of a text with constraints, for the message.

    Raises:
        ValueError: if it is not one sentence.
    """
    if len(sentences) != 1:
        raise ValueError(
            f"constraints: text {number} (from 0) has {len(sentences)} sentences; give them with "
            "texts of one sentence"
        )


def ranks(found: Sequence[Sequence[Any]], n: int) -> Iterator[list[Any]]:
    """The n translations of a text: number i has hypothesis i of each sentence, or the last one.

    Args:
        found: the hypotheses of each sentence, best first.
    """
    for i in range(n):
        yield [best[min(i, len(best) - 1)] for best in found]
