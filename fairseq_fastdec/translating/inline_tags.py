"""Translates texts with inline tags as a whole, and carries the tags over by alignment.

A *run* consists of texts that only inline tags or placeholders separate. It is translated without
them. Each word of the translation is put into the elements that contain the source word that it is
aligned with. The result is well-formed, and its text is that without tags, whatever the alignment
is. An element whose words are apart in the translation occurs several times; one without words is
empty.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Optional, Union

from . import markup
from .markup import ATTRIBUTES, MARKUP, TAG_END, Piece, end_of, escaped, in_one_line, unescaped
from .results import Translation
from .sentences import SplitText

INLINE = set(
    "a abbr b bdi bdo big cite del dfn em font i ins kbd label mark q s samp small span strike "
    "strong sub sup time tt u var".split()
)
POINTS = {"img", "wbr"}
# The maximum number of tags of a run; texts between more of them are translated separately.
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


class Tag(NamedTuple):
    """An inline tag of a run.

    Attributes:
        source: the tag as it is in the document.
        name: of the element.
        is_end: whether it is an end tag.
    """

    source: str
    name: str
    is_end: bool


class InlineElement(NamedTuple):
    """An element of a run, whose content is between two places of the text.

    Attributes:
        tags: the start and the end tag; the end tag of an element without content is empty.
        around: the elements that contain it.
        beside: the characters before and behind a placeholder; empty at the ends of its text.
    """

    start: int
    end: int
    tags: tuple[str, str]
    around: Path
    beside: tuple[str, str] = ("", "")


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

    def path(self, place: int) -> Path:
        """The elements around a character of the text."""
        return tuple(
            number for number, own in enumerate(self.elements) if own.start <= place < own.end
        )


class AlignedPart(NamedTuple):
    """A part of a translation, in the elements of a path.

    Attributes:
        place: of the source word that it is aligned with.
    """

    text: str
    path: Path
    place: int


class RunPart(NamedTuple):
    """A part of a document that can belong to a run: a text or an inline tag.

    Attributes:
        source: the part as it is in the document.
        text: that of a text, without character references; empty for a tag.
        tag: ``None`` for a text.
        is_translated: whether the text has letters.
    """

    source: str
    text: str = ""
    tag: Optional[Tag] = None
    is_translated: bool = False


def runs(pieces: Iterable[Piece]) -> Iterator[Union[Piece, Run, None]]:
    """Join texts of a document that inline tags separate into runs.

    Yields:
        runs, and the other pieces; the concatenated sources are the document. ``None`` stands for a
        piece of work.
    """
    held: list[RunPart] = []
    for piece in pieces:
        yield None
        if piece.text is not None and not piece.is_preformatted:
            held.append(RunPart(piece.source, piece.text, is_translated=True))
            continue
        for token in [piece.source] if piece.text is not None else _tokens(piece.source):
            if isinstance(token, RunPart):
                held.append(token)
                continue
            yield from _joined(held)
            held = []
            yield Piece(token, piece.text, piece.is_preformatted)
    yield from _joined(held)


def _tokens(source: str) -> Iterator[Union[RunPart, str]]:
    """The inline tags and texts without letters of markup, and the other parts of it."""
    end = 0
    while end < len(source):
        start, found = end, MARKUP.match(source, end)
        if found is None:
            following = MARKUP.search(source, end)
            end = len(source) if following is None else following.start()
            text = in_one_line(unescaped(source[start:end]))
            is_kept = any(map(str.isalpha, text))
            yield source[start:end] if is_kept else RunPart(source[start:end], text)
            continue
        name, first = (found["tag"] or "").lower(), found.end()
        end = first
        while (after := end_of(ATTRIBUTES, source, end)) > end:
            end = after
        is_inline = name in INLINE | POINTS and "translate" not in source[first:end].lower()
        end = end_of(TAG_END, source, end) if name else end
        own = source[start:end]
        yield RunPart(own, tag=Tag(own, name, bool(found["end"]))) if is_inline else own


def _joined(tokens: list[RunPart]) -> Iterator[Union[Piece, Run]]:
    """The run of tokens, with what is before and behind it; pieces if they have none."""
    texts = [at for at, token in enumerate(tokens) if token.is_translated]
    partners = _partners(tokens)
    first, last = (texts[0], texts[-1]) if texts else (0, -1)
    # Elements around the first and the last text belong to the run, if it has their other ends.
    start = next((at for at in range(first) if partners.get(at, 0) > first), first)
    ends = range(len(tokens) - 1, last, -1)
    stop = next((at for at in ends if start <= partners.get(at, -1) < last), last)
    own = range(start, stop + 1)
    tags = {at: tag for at in own if (tag := tokens[at].tag) is not None}
    is_whole = all(tag.name in POINTS or partners.get(at, -1) in own for at, tag in tags.items())
    if len(texts) < 2 or len(tags) > MOST_TAGS or not is_whole:
        start, stop = len(tokens), len(tokens) - 1
    for token in tokens[:start]:
        yield Piece(token.source, token.text if token.is_translated else None)
    if start <= stop:
        yield _run_of(tokens[start : stop + 1])
    for token in tokens[stop + 1 :] if start <= stop else ():
        yield Piece(token.source, None)


def _partners(tokens: Sequence[RunPart]) -> dict[int, int]:
    """By place, the places of the other tags of elements."""
    partners, opened = dict[int, int](), list[tuple[int, str]]()
    for at, token in enumerate(tokens):
        if token.tag is None or token.tag.name in POINTS:
            continue
        if not token.tag.is_end:
            opened.append((at, token.tag.name))
        elif opened and opened[-1][1] == token.tag.name:
            other, _ = opened.pop()
            partners[at], partners[other] = other, at
    return partners


def _run_of(tokens: Sequence[RunPart]) -> Run:
    """The run of texts and whole elements."""
    text, elements, opened = "", list[InlineElement](), list[int]()
    for token in tokens:
        text += token.text
        if token.tag is None:
            continue
        if token.tag.is_end and token.tag.name not in POINTS:
            number = opened.pop()
            tags = (elements[number].tags[0], token.source)
            elements[number] = elements[number]._replace(end=len(text), tags=tags)
            continue
        elements.append(InlineElement(len(text), len(text), (token.source, ""), tuple(opened)))
        if token.tag.name not in POINTS:
            opened.append(len(elements) - 1)
    return Run("".join(token.source for token in tokens), text, elements)


def join(
    pieces: Iterable[Union[Piece, Run]],
    translations: Iterator[str],
    parts_of: Callable[[str], SplitText],
    found: Mapping[str, Translation],
) -> Iterator[str]:
    """The parts of a document, with translations in place of texts and runs.

    Args:
        translations: of each text and run.
        parts_of: splits a text into sentences.
        found: the translations of all sentences with hard alignments, by sentence.
    """
    for piece in pieces:
        if isinstance(piece, Run):
            next(translations)
            yield with_tags(piece, parts_of(piece.text), found)
        else:
            yield from markup.join([piece], translations)


def with_tags(run: Run, parts: SplitText, found: Mapping[str, Translation]) -> str:
    """The translation of a run, with its tags or placeholders.

    Args:
        parts: the sentences of its text.
        found: their translations with hard alignments, by sentence.
    """
    chunks, place = list[AlignedPart](), 0
    for separator, sentence in zip(parts.separators, [*parts.sentences, None]):
        chunks += [
            AlignedPart(own, run.path(place + at), place + at) for at, own in enumerate(separator)
        ]
        place += len(separator)
        if sentence is not None:
            own_chunks = _between_words(_chunks_of(run, place, sentence, found[sentence]))
            chunks += _closed(own_chunks)
            place += len(sentence)
    chunks = _between_words(chunks)
    _place_others(run, chunks)
    return _rendered(run, chunks) if run.is_html else _spaced(run, chunks)


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


def _place_others(run: Run, chunks: list[AlignedPart]) -> None:
    """Put elements without chunks before the words that follow them."""
    used = {number for chunk in chunks for number in chunk.path}
    for number in reversed(range(len(run.elements))):
        if number in used:
            continue
        own = run.elements[number]
        behind = [at for at, chunk in enumerate(chunks) if chunk.place >= own.start]
        at = min(behind, key=lambda at: (chunks[at].place, at), default=len(chunks))
        chunks.insert(at, AlignedPart("", (*own.around, number), own.start))
        used.update(chunks[at].path)


def _rendered(run: Run, chunks: list[AlignedPart]) -> str:
    """The HTML of chunks."""
    parts, opened = list[str](), Path()
    for chunk in [*chunks, AlignedPart("", (), 0)]:
        n = n_common(opened, chunk.path)
        parts += [run.elements[number].tags[1] for number in reversed(opened[n:])]
        parts += [run.elements[number].tags[0] for number in chunk.path[n:]]
        parts.append(escaped(chunk.text))
        opened = chunk.path
    return "".join(parts)


def _spaced(run: Run, chunks: list[AlignedPart]) -> str:
    """Chunks and placeholders, which do not join words that are apart in the source."""
    parts, last, after = list[str](), "", "a"
    for chunk in chunks:
        part, is_apart = chunk.text, LETTER.match(chunk.text) and not LETTER.match(after)
        after = "a"
        if chunk.path:
            own = run.elements[chunk.path[-1]]
            part, (before, after) = own.tags[0], own.beside
            is_apart = LETTER.match(last) and not LETTER.match(before)
            is_apart = is_apart or (CLOSING.match(last) and not before.strip())
        parts += [" ", part] if is_apart else [part]
        last = part[-1:]
    return "".join(parts)
