"""Texts with tags or placeholders: their sentences, and what their translations become."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Optional, Union

from . import inline_tags, markup, placeholders
from .markup import Piece, escaped
from .results import Problem, Translation
from .runs import Run, with_tags
from .sentences import Sentence, SplitText, check_one, ranks

HTML, PLACEHOLDERS = "html", "placeholders"
KINDS = (HTML, PLACEHOLDERS)


def kinds_of(tags: Any, options: Mapping[str, Any], **others: Any) -> tuple[str, ...]:
    """The kinds that the argument ``tags`` of a call names, of :data:`KINDS`.

    Args:
        options: those of the call.
        others: arguments that belong to a part of a text, like the option ``alignment``; ``None``
            or false if they are not given.

    Raises:
        ValueError: for an unknown name, and with one of the other arguments.
    """
    names = [tags] if isinstance(tags, str) or not isinstance(tags, Iterable) else [*tags]
    for name in names or [tags]:
        if name not in KINDS:
            raise ValueError(f"tags {name!r}: choose from {', '.join(KINDS)}")
    for name, value in {**others, "alignment": options.get("alignment")}.items():
        if value is not None and value is not False:
            shown = ", ".join(dict.fromkeys(names))
            raise ValueError(f"tags {shown}: cannot be combined with {name}; remove one of them")
    return tuple(names)


def pieces_of(text: str, kinds: Sequence[str]) -> Iterator[Union[Piece, Run, None]]:
    """Divide a text into runs, and pieces that have no tags or placeholders to carry over.

    Args:
        kinds: what the text contains, of :data:`KINDS`.

    Yields:
        also ``None``, for a piece of work
    """
    found: Iterator[Union[Piece, Run, None]] = iter([Run(text, text, is_html=False)])
    if HTML in kinds:
        found = inline_tags.runs(markup.split(text), PLACEHOLDERS in kinds)
    for piece in found:
        if piece is None or piece.text is None or PLACEHOLDERS not in kinds:
            yield piece
            continue
        run = piece if isinstance(piece, Run) else Run(piece.source, piece.text)
        for own in placeholders.runs(run):
            yield own if any(map(str.isalpha, own.text)) else Piece(own.source, None)


def whole(text: str) -> SplitText:
    """A text as one sentence, or none without letters."""
    sentence = text.strip()
    if not any(map(str.isalpha, sentence)):
        return SplitText([], [text])
    start = text.index(sentence)
    return SplitText([sentence], [text[:start], text[start + len(sentence) :]])


@dataclass(frozen=True)
class TaggedText:
    """A text whose tags or placeholders are not translated.

    Attributes:
        pieces: from :func:`pieces_of`.
        parts: the text of each piece that has one.
    """

    pieces: list[Union[Piece, Run]]
    parts: list[SplitText]

    @property
    def sentences(self) -> list[str]:
        """The sentences to translate."""
        return [sentence for part in self.parts for sentence in part.sentences]

    def joined(self, translations: Iterator[Translation]) -> Iterator[Optional[str]]:
        """The translation of the text.

        Args:
            translations: of the sentences; with hard alignments where a piece is a run.

        Yields:
            ``None`` for each piece, and the translation
        """
        written, parts = list[str](), iter(self.parts)
        for piece in self.pieces:
            yield None
            if piece.text is None:
                written.append(piece.source)
                continue
            part = next(parts)
            own = [*islice(translations, len(part.sentences))]
            if isinstance(piece, Run):
                for text in with_tags(piece, part, own):
                    written += [] if text is None else [text]
                    yield None
            else:
                written.append(escaped(part.join(found.text or "" for found in own)))
        yield "".join(written)


class TaggedSentence:
    """A text of a call with the argument ``tags``; see :meth:`.translator.Translator.translate`.

    Attributes:
        sentences: its sentences, at least one.
    """

    def __init__(self, given: Sentence, number: int, kinds: Sequence[str]) -> None:
        """
        Args:
            number: of the text in the call, for messages.

        Raises:
            ValueError: for a text with constraints that is not one sentence.
        """
        pieces = [piece for piece in pieces_of(given.text, kinds) if piece is not None]
        parts = [whole(piece.text) for piece in pieces if piece.text is not None]
        self._text = TaggedText(pieces, parts)
        found = self._text.sentences
        if given.constraints:
            check_one(found, number)
        # Of a text without sentences, an empty one is done at once.
        self.sentences = [given._replace(text=text) for text in found or [""]]

    def found(self, of_sentences: Sequence[Any]) -> Union[Problem, list[str]]:
        """The translations of the text, best first, or its first problem.

        Args:
            of_sentences: for each sentence its :class:`Translation` objects, best first, or its
                problem.
        """
        for own in of_sentences:
            if isinstance(own, Problem):
                return own
        n_best = max(map(len, of_sentences))
        joined = (self._text.joined(iter(rank)) for rank in ranks(of_sentences, n_best))
        # The last item is the text.
        return [[*own][-1] or "" for own in joined]


def stream_of_tagged(
    sentences: Iterable[Sentence],
    kinds: Sequence[str],
    translated: Callable[[Iterator[Sentence]], Iterator[tuple[int, Any]]],
) -> Iterator[tuple[int, Union[Problem, list[Translation]]]]:
    """Translate a stream of texts with tags.

    Args:
        sentences: the texts; see :meth:`.translator.Translator.translate_stream`.
        translated: translates a stream of sentences.

    Yields:
        the number of a text, and its translations or its problem, once all of its sentences are
        translated
    """
    waiting: dict[int, tuple[TaggedSentence, dict[int, Any]]] = {}
    places: dict[int, tuple[int, int]] = {}  # the text and the place there of each sentence
    numbers = count()

    def parts() -> Iterator[Sentence]:
        for number, sentence in enumerate(sentences):
            own = TaggedSentence(sentence, number, kinds)
            waiting[number] = own, {}
            for place, part in enumerate(own.sentences):
                places[next(numbers)] = number, place
                yield part

    for at, found in translated(parts()):
        number, place = places.pop(at)
        own, of_parts = waiting[number]
        of_parts[place] = found
        if len(of_parts) == len(own.sentences):
            del waiting[number]
            joined = own.found([of_parts[place] for place in range(len(of_parts))])
            yield number, joined if isinstance(joined, Problem) else [*map(Translation, joined)]
