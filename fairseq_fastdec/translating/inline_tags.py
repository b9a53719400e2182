"""Joins the texts of HTML documents that only inline tags separate into runs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional, Union

from .markup import ATTRIBUTES, MARKUP, TAG_END, Piece, end_of, in_one_line, unescaped
from .placeholders import PLACEHOLDER
from .runs import MOST_TAGS, InlineElement, Run

INLINE = set(
    "a abbr b bdi bdo big cite del dfn em font i ins kbd label mark q s samp small span strike "
    "strong sub sup time tt u var".split()
)
POINTS = {"img", "wbr"}


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


class RunPart(NamedTuple):
    """A part of a document that can belong to a run: a text or an inline tag.

    Attributes:
        source: the part as it is in the document.
        text: that of a text, without character references; empty for a tag.
        tag: ``None`` for a text.
        is_translated: whether the text has letters or placeholders.
        n_placeholders: the number of these, if they are not translated.
    """

    source: str
    text: str = ""
    tag: Optional[Tag] = None
    is_translated: bool = False
    n_placeholders: int = 0


def runs(
    pieces: Iterable[Optional[Piece]], has_placeholders: bool = False
) -> Iterator[Union[Piece, Run, None]]:
    """Join texts of a document that inline tags separate into runs.

    Args:
        pieces: see :func:`.markup.split`.
        has_placeholders: whether placeholders are carried over, too; they are still in the texts.

    Yields:
        runs, and the other pieces; the concatenated sources are the document. ``None`` stands for a
        piece of work.
    """
    held: list[RunPart] = []
    for piece in pieces:
        yield None
        if piece is None:
            continue
        tokens: Iterable[Union[RunPart, str]] = [piece.source]
        if piece.text is None:
            tokens = _tokens(piece.source)
        elif not piece.is_preformatted:
            tokens = [RunPart(piece.source, piece.text, is_translated=True)]
        for token in tokens:
            if isinstance(token, RunPart):
                n = len(PLACEHOLDER.findall(token.text)) if has_placeholders else 0
                is_translated = token.is_translated or n > 0
                held.append(token._replace(is_translated=is_translated, n_placeholders=n))
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
        while name and (after := end_of(ATTRIBUTES, source, end)) > end:
            end = after
        is_inline = name in INLINE | POINTS and "translate" not in source[first:end].lower()
        end = end_of(TAG_END, source, end) if name else end
        own = source[start:end]
        yield RunPart(own, tag=Tag(own, name, bool(found["end"]))) if is_inline else own


def _joined(tokens: list[RunPart]) -> Iterator[Union[Piece, Run]]:
    """The run of tokens, with what is before and behind it; pieces if they have none."""
    partners = _partners(tokens)
    visible = [at for at, token in enumerate(tokens) if token.text.strip()]
    translated = [at for at in visible if tokens[at].is_translated]
    own = range(0)
    if translated:
        own = _extent(tokens, visible, partners) or _extent(tokens, translated, partners)
    if not own:
        for token in tokens:
            yield Piece(token.source, token.text if token.is_translated else None)
        return
    yield from (Piece(token.source, None) for token in tokens[: own.start])
    yield _run_of(tokens[own.start : own.stop])
    yield from (Piece(token.source, None) for token in tokens[own.stop :])


def _extent(tokens: Sequence[RunPart], texts: list[int], partners: dict[int, int]) -> range:
    """The tokens of the run with some texts; none if it has not whole elements, or too many."""
    if len(texts) < 2:
        return range(0)
    first, last = texts[0], texts[-1]
    # Elements around the first and the last text belong to the run, if it has their other ends.
    start = next((at for at in range(first) if partners.get(at, 0) > first), first)
    ends = range(len(tokens) - 1, last, -1)
    stop = next((at for at in ends if start <= partners.get(at, -1) < last), last)
    own = range(start, stop + 1)
    tags = {at: tag for at in own if (tag := tokens[at].tag) is not None}
    is_whole = all(tag.name in POINTS or partners.get(at, -1) in own for at, tag in tags.items())
    n_carried = len(tags) + sum(tokens[at].n_placeholders for at in own)
    return own if is_whole and n_carried <= MOST_TAGS else range(0)


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
