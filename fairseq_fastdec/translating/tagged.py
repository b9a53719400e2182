"""Translates texts with tags or placeholders from Python; see :mod:`~.inline_tags`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Union

from . import inline_tags, markup, placeholders
from .inline_tags import Run
from .markup import Piece
from .results import Problem, SentenceError, Translation, stripped, texts_of
from .sentences import SplitText

if TYPE_CHECKING:
    from .translator import Translator

KINDS = ("html", "placeholders")


def check_alone(kind: Any, **others: Any) -> None:
    """
    Raises:
        ValueError: if another argument was given, which would belong to a part of a text.
    """
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"tags {kind}: cannot be combined with {name}; remove one of them")


def translated(translator: "Translator", texts: Any, kind: Any, options: dict[str, Any]) -> Any:
    """Translate texts without their tags, and put these into the translations.

    Args:
        texts, kind, options: see :meth:`.translator.Translator.translate`; ``kind`` is ``tags``.

    Raises:
        SentenceError, TypeError, ValueError: see :meth:`.translator.Translator.translate`.
    """
    if kind not in KINDS:
        raise ValueError(f"tags {kind!r}: choose from {', '.join(KINDS)}")
    n_best = translator.request(options).nbest
    if n_best > 1:
        raise ValueError(f"tags {kind}: not with nbest {n_best}; use nbest 1")
    documents = [
        [*_pieces(stripped(text, number), kind)] for number, text in enumerate(texts_of(texts))
    ]
    sentences: list[tuple[int, str]] = [
        (number, sentence)
        for number, pieces in enumerate(documents)
        for piece in pieces
        if piece.text is not None
        for sentence in whole(piece.text).sentences
    ]
    results = translator.translate(
        [sentence for _, sentence in sentences], details=True, **{**options, "alignment": "hard"}
    )
    found, problems = dict[str, Translation](), dict[int, Problem]()
    for (number, sentence), own in zip(sentences, results):
        found[sentence] = own
        if own.error is not None:
            problems.setdefault(number, own.error)
    joined = [
        None if number in problems else _joined(pieces, found)
        for number, pieces in enumerate(documents)
    ]
    if problems:
        raise SentenceError(problems, joined)
    return joined[0] if isinstance(texts, str) else joined


def whole(text: str) -> SplitText:
    """A text as one sentence, or none without letters."""
    sentence = text.strip()
    if not any(map(str.isalpha, sentence)):
        return SplitText([], [text])
    start = text.index(sentence)
    return SplitText([sentence], [text[:start], text[start + len(sentence) :]])


def _pieces(text: str, kind: str) -> Iterator[Union[Piece, Run]]:
    """The runs and the other pieces of a text."""
    if kind == "placeholders":
        yield from placeholders.runs(text)
    else:
        yield from filter(None, inline_tags.runs(filter(None, markup.split(text))))


def _joined(pieces: list[Union[Piece, Run]], found: dict[str, Translation]) -> str:
    texts = [whole(piece.text) for piece in pieces if piece.text is not None]
    translations = (
        part.join(found[sentence].text or "" for sentence in part.sentences) for part in texts
    )
    return "".join(inline_tags.join(pieces, translations, whole, found))
