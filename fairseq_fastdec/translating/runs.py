"""Texts that are translated without their tags or placeholders, which alignments carry over.

A *run* consists of texts that only inline tags or placeholders separate. It is translated without
them. Each word of the translation is put into the elements that contain the source word that it is
aligned with. The result is well-formed, and its text is that without tags, whatever the alignment
is. An element whose words are apart in the translation occurs several times; one without words is
empty. A placeholder is an element without words.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, Optional

from .markup import escaped, unescaped
from .results import Translation
from .sentences import SplitText

# The maximum number of tags and placeholders of a run; texts between more of them are translated
# separately.
MOST_TAGS = 100
# Words, and single characters between them.
ATOM = re.compile(r"\w+|\W")
# What Moses and subword codes add to the characters of a text.
ADDED = re.compile("@@$|^\u2581|@-@")
LETTER, CLOSING = re.compile(r"\w"), re.compile(r"[,.;:!?)\]}]")
# A character of a subword is looked for in this part of the text.
WINDOW = 32
# The elements around a place, the outermost one first.
Path = tuple[int, ...]


class InlineElement(NamedTuple):
    """An element of a run, whose content is between two places of the text.

    Attributes:
        tags: the start and the end tag; the end tag of an element without content is empty.
        around: the elements that contain it.
        beside: of a placeholder, which is the start tag: the characters before and behind it, empty
            at the ends of its text; ``None`` for other elements.
    """

    start: int
    end: int
    tags: tuple[str, str]
    around: Path
    beside: Optional[tuple[str, str]] = None


@dataclass
class Run:
    """Texts that only inline tags or placeholders separate.

    Attributes:
        source: the run as it is in the document.
        text: the text to translate, without character references.
        elements: in the order of their start tags; a placeholder is one without content.
        is_html: whether the translation has character references.
    """

    source: str
    text: str
    elements: list[InlineElement] = field(default_factory=list)
    is_html: bool = True

    @cached_property
    def _bounds(self) -> list[int]:
        """The places where elements begin and end, ascending."""
        return sorted({place for own in self.elements for place in (own.start, own.end)})

    @cached_property
    def _paths(self) -> list[Path]:
        """The elements before the first bound, and behind each."""
        elements = [*enumerate(self.elements)]
        return [
            (),
            *(
                tuple(number for number, own in elements if own.start <= place < own.end)
                for place in self._bounds
            ),
        ]

    def path(self, place: int) -> Path:
        """The elements around a character of the text."""
        return self._paths[bisect_right(self._bounds, place)]

    def divided(self, text: str, place: int) -> list["AlignedPart"]:
        """A part of the text, divided where elements begin and end.

        Args:
            place: of the part.
        """
        end = place + len(text)
        inside = slice(bisect_right(self._bounds, place), bisect_left(self._bounds, end))
        cuts = [place, *self._bounds[inside], end]
        return [
            AlignedPart(text[first - place : last - place], self.path(first), first)
            for first, last in zip(cuts, cuts[1:])
            if first < last
        ]


class AlignedPart(NamedTuple):
    """A part of a translation, in the elements of a path.

    Attributes:
        place: of the source word that it is aligned with.
    """

    text: str
    path: Path
    place: int


def with_tags(
    run: Run, parts: SplitText, translations: Sequence[Translation]
) -> Iterator[Optional[str]]:
    """The translation of a run, with its tags or placeholders.

    Args:
        parts: the sentences of its text.
        translations: of these, with hard alignments.

    Yields:
        ``None`` for each piece of work, and the translation
    """
    if not run.elements:
        text = parts.join(own.text or "" for own in translations)
        yield _rendered(run, [AlignedPart(text, (), 0)])
        return
    chunks, place = list[AlignedPart](), 0
    for separator, sentence, own in zip(
        parts.separators, [*parts.sentences, ""], [*translations, Translation("")]
    ):
        yield None
        chunks += run.divided(separator, place)
        place += len(separator)
        chunks += _closed(_between_words(_chunks_of(run, place, sentence, own)))
        place += len(sentence)
    for step in (_between_words, partial(_with_others, run), partial(_apart, run)):
        chunks = step(chunks)
        yield None
    yield _rendered(run, chunks)


def _chunks_of(run: Run, first: int, sentence: str, translation: Translation) -> list[AlignedPart]:
    """The words of a translation, in the elements of the source words.

    Args:
        first: the place of the sentence in the run.
    """
    text = translation.text or ""
    sources, targets = spans(sentence, translation.source_tokens), spans(text, translation.tokens)
    of_target = dict[int, int]()  # the first source subword of each target subword
    for source, target in translation.alignment or ():
        of_target.setdefault(int(target), int(source))
    # By place of the translation, the source place that the subword there is aligned with.
    aligned = {
        at: sources[of_target[number]][0]
        for number, (start, end) in enumerate(targets)
        if number in of_target
        for at in range(start, end)
    }
    chunks, place = list[AlignedPart](), 0
    for atom in ATOM.finditer(text):
        place = aligned.get(atom.start(), place)
        chunks.append(AlignedPart(atom[0], run.path(first + place), first + place))
    return chunks


def _between_words(chunks: list[AlignedPart]) -> list[AlignedPart]:
    """Put white space into the elements that contain both words around it."""
    before, befores = Path(), list[Path]()
    for chunk in chunks:
        before = before if chunk.text.isspace() else chunk.path
        befores.append(before)
    after, found = Path(), list[AlignedPart]()
    for chunk, before in zip(reversed(chunks), reversed(befores)):
        after = after if chunk.text.isspace() else chunk.path
        found.append(chunk._replace(path=before[: n_common(before, after)]))
    return found[::-1]


def n_common(one: Path, other: Path) -> int:
    """The number of first elements that two paths share."""
    pairs = enumerate(zip(one, other))
    shorter = min(len(one), len(other))
    return next((at for at, (own, theirs) in pairs if own != theirs), shorter)


def spans(text: str, subwords: Sequence[str]) -> list[tuple[int, int]]:
    """The places of subwords in a text; an empty span for one whose characters are not found."""
    found, end = list[tuple[int, int]](), 0
    lower = text.lower() if len(text.lower()) == len(text) else text
    for subword in subwords:
        start = None
        for char in unescaped(ADDED.sub(_kept, subword)).lower():
            at = lower.find(char, end, end + WINDOW)
            if at >= 0 and not char.isspace():
                start, end = at if start is None else start, at + 1
        found.append((end if start is None else start, end))
    return found


def _kept(added: "re.Match[str]") -> str:
    return "-" if added[0] == "@-@" else ""


def _closed(chunks: list[AlignedPart]) -> list[AlignedPart]:
    """Put what is between two words of an element into the element, unless it is in another one."""
    paths = [chunk.path for chunk in chunks]
    for number in {number for path in paths for number in path}:
        inside = [at for at, path in enumerate(paths) if number in path]
        for before, after in zip(inside, inside[1:]):
            path = paths[before][: paths[before].index(number) + 1]
            between = range(before + 1, after)
            if all(paths[at] == path[: len(paths[at])] for at in between):
                for at in between:
                    paths[at] = path
    return [chunk._replace(path=path) for chunk, path in zip(chunks, paths)]


def _with_others(run: Run, chunks: list[AlignedPart]) -> list[AlignedPart]:
    """Chunks, with elements that have none before the words that follow these."""
    places = sorted((chunk.place, at) for at, chunk in enumerate(chunks))
    used = {number for chunk in chunks for number in chunk.path}
    before: defaultdict[int, list[AlignedPart]] = defaultdict(list)
    for number in reversed(range(len(run.elements))):
        if number in used:
            continue
        own = run.elements[number]
        behind = bisect_left(places, (own.start, 0))
        at = places[behind][1] if behind < len(places) else len(chunks)
        before[at].append(AlignedPart("", (*own.around, number), own.start))
        used.update(before[at][-1].path)
    found = list[AlignedPart]()
    for at, chunk in enumerate(chunks):
        found += [*reversed(before[at]), chunk]
    return [*found, *reversed(before[len(chunks)])]


def _apart(run: Run, chunks: list[AlignedPart]) -> list[AlignedPart]:
    """Chunks, with spaces where placeholders would join words that are apart in the source."""
    found, last, after, path = list[AlignedPart](), "", "a", Path()
    for chunk in chunks:
        text, is_apart = chunk.text, LETTER.match(chunk.text) and not LETTER.match(after)
        own = run.elements[chunk.path[-1]] if chunk.path else None
        if not text and own is not None and own.beside is not None:
            text, (before, following) = own.tags[0], own.beside
            is_apart = LETTER.match(last) and not LETTER.match(before)
            is_apart = is_apart or (CLOSING.match(last) and not before.strip())
        else:
            following = "a" if text else after
        if is_apart:
            shared = path[: n_common(path, chunk.path)]
            found.append(AlignedPart(" ", shared, chunk.place))
        found.append(chunk)
        if text:
            last, after, path = text[-1], following, chunk.path
    return found


def _rendered(run: Run, chunks: list[AlignedPart]) -> str:
    """Chunks in their elements."""
    written = escaped if run.is_html else str
    parts, opened = list[str](), Path()
    for chunk in [*chunks, AlignedPart("", (), 0)]:
        n = n_common(opened, chunk.path)
        parts += [run.elements[number].tags[1] for number in reversed(opened[n:])]
        parts += [run.elements[number].tags[0] for number in chunk.path[n:]]
        parts.append(written(chunk.text))
        opened = chunk.path
    return "".join(parts)
