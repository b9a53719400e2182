"""Splits HTML documents into markup and texts, and joins them again with other texts.

``html.parser`` takes quadratic time for some documents, and the service's documents are untrusted.
These expressions read each character a bounded number of times, and find tags as defined by the
HTML standard.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

# Unclosed markup extends to the end of the document.
MARKUP = re.compile(
    r"""(?sx)
    <!--(?:-?>|.*?(?:--!?>|\Z))                                    # a comment
    | <(?P<closed>/[a-zA-Z][^\s/>]*)[^>]*(?:>|\Z)                  # an end tag
    | <[!?/][^>]*(?:>|\Z)                                          # a declaration
    | <(?P<opened>[a-zA-Z][^\s/>]*)                                # a start tag
      (?P<attributes>(?:[^>=]+|=(?!\s*["'])|=\s*"[^"]*"|=\s*'[^']*')*)(?:>|\Z|=.*)
    """
)
ATTRIBUTE = re.compile(r"""(?<![^\s/"'])([^\s/>="']+)\s*=\s*("[^"]*"|'[^']*'|[^\s>]+)""")
# Elements whose text is not translated, and the end tags of those that cannot contain elements.
UNTRANSLATED = {"code", "script", "style"}
RAW_END = {tag: re.compile(rf"(?i)</{tag}(?=[\s/>])") for tag in ("script", "style")}
VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
}  # fmt: skip


class Piece(NamedTuple):
    """A part of an HTML document.

    Attributes:
        source: the part as it is in the document.
        text: the text to translate, without character references; ``None`` for markup.
    """

    source: str
    text: Optional[str]


class OpenElement(NamedTuple):
    """An element that contains the current position, and the treatment of its text."""

    tag: str
    is_translated: bool
    is_preformatted: bool


def split(document: str) -> list[Piece]:
    """Split a document into markup and texts. The concatenated sources are the document.

    A tag or a comment ends a text. Line breaks become spaces, except inside ``pre``.
    """
    pieces, end = [], 0
    for start, stop, is_preformatted in _texts(document):
        source = document[start:stop].strip()
        text = html.unescape(source)
        # White space around a text, and texts without letters, are kept as they are.
        if any(char.isalpha() for char in text):
            start = document.index(source, start)
            pieces.append(Piece(document[end:start], None))
            text = text if is_preformatted else re.sub(r"\s*\n\s*", " ", text)
            pieces.append(Piece(source, text))
            end = start + len(source)
    return [*pieces, Piece(document[end:], None)]


def join(pieces: Iterable[Piece], translations: Iterable[str]) -> str:
    """Join the pieces of :func:`split`, with translations in place of the texts."""
    texts = iter(translations)
    return "".join(
        piece.source if piece.text is None else _escaped(next(texts)) for piece in pieces
    )


def _escaped(text: str) -> str:
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def _texts(document: str) -> Iterator[tuple[int, int, bool]]:
    """The start and end of each text, and whether it is preformatted."""
    elements = [OpenElement("", True, False)]
    n_open: Counter[str] = Counter()
    end = 0
    while end < len(document):
        found = MARKUP.search(document, end)
        start = len(document) if found is None else found.start()
        if elements[-1].is_translated and end < start:
            yield end, start, elements[-1].is_preformatted
        if found is None:
            return
        end = found.end()
        tag = (found["opened"] or found["closed"] or "").lower()
        if found["opened"] and tag in RAW_END:
            close = RAW_END[tag].search(document, end)
            end = len(document) if close is None else close.start()
        elif found["opened"] and tag not in VOID:
            elements.append(_opened(tag, found["attributes"], elements[-1]))
            n_open[tag] += 1
        elif found["closed"] and n_open[tag := tag[1:]]:
            while elements[-1].tag != tag:
                n_open[elements.pop().tag] -= 1
            n_open[elements.pop().tag] -= 1


def _opened(tag: str, source: str, outer: OpenElement) -> OpenElement:
    is_translated = outer.is_translated
    if "translate" in source.lower():
        attributes = {
            name.lower(): value.strip("\"'").lower() for name, value in ATTRIBUTE.findall(source)
        }
        if "notranslate" in attributes.get("class", "").split():
            is_translated = False
        is_translated = {"yes": True, "no": False}.get(
            attributes.get("translate", ""), is_translated
        )
    return OpenElement(
        tag, is_translated and tag not in UNTRANSLATED, outer.is_preformatted or tag == "pre"
    )
