"""Splits HTML documents into markup and texts, and joins them again with other texts.

Parsers of HTML do not keep the source of a document. ``html.parser`` does, but takes quadratic time
for some documents, and the service's documents are untrusted. These expressions read each character
a bounded number of times, and find tags as defined by the HTML standard.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from .open_elements import OpenElements

NAME = r"[^\t\n\f\r\ />][^\t\n\f\r\ />=]*"
EQUALS = r"[\t\n\f\r\ ]*=[\t\n\f\r\ ]*"
# A quoted value without an end extends to the end of the document.
VALUE = r"""(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^\t\n\f\r\ >"'][^\t\n\f\r\ >]*)"""
ATTRIBUTE = re.compile(f"(?x)({NAME})(?:{EQUALS}({VALUE})?)?")
# A piece of the attributes of a tag.
ATTRIBUTES = re.compile(rf"(?x)(?:[\t\n\f\r\ ]+|/(?!>)|{NAME}(?:{EQUALS}{VALUE}?)?){{,1000}}")
TAG_END = re.compile(r"/?(?:>|\Z)")
# Unclosed markup extends to the end of the document.
MARKUP = re.compile(
    r"""(?sx)
    <!--(?:-?>|.*?(?:--!?>|\Z))                         # a comment
    | <(?P<end>/?)(?P<tag>[a-zA-Z][^\t\n\f\r\ />]*)     # the beginning of a tag
    | <[!?/][^>]*(?:>|\Z)                               # a declaration
    """
)
# Elements that contain no elements, with their end tags.
RAW = {
    tag: re.compile(rf"(?i)</{tag}(?=[\t\n\f\r />])")
    for tag in (
        "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
    )
}  # fmt: skip
# Elements of these whose text has character references.
WITH_REFERENCES = {"textarea", "title"}
UNTRANSLATED = {"code", "plaintext", *RAW} - WITH_REFERENCES
LONG_REFERENCE = re.compile(r"&#([0-9]{8,});?")


class Piece(NamedTuple):
    """A part of an HTML document.

    Attributes:
        source: the part as it is in the document.
        text: the text to translate, without character references; ``None`` for markup.
        is_preformatted: whether its line breaks are kept.
    """

    source: str
    text: Optional[str]
    is_preformatted: bool = False


def split(document: str) -> Iterator[Optional[Piece]]:
    """Split a document into markup and texts. The concatenated sources are the document.

    A tag or a comment ends a text. Line breaks become spaces, except inside ``pre``.

    Yields:
        pieces, and ``None`` after other pieces of work.
    """
    end = 0
    for start, stop, is_preformatted in _texts(document):
        source = document[start:stop]
        text = unescaped(source.strip())
        # White space around a text, and texts without letters, are kept as they are.
        if any(char.isalpha() for char in text):
            start += len(source) - len(source.lstrip())
            yield Piece(document[end:start], None)
            end = start + len(source.strip())
            text = text if is_preformatted else in_one_line(text)
            yield Piece(document[start:end], text, is_preformatted)
        yield None
    yield Piece(document[end:], None)


def join(pieces: Iterable[Piece], translations: Iterable[str]) -> Iterator[str]:
    """The parts of a document, with translations in place of the texts of :func:`split`."""
    texts = iter(translations)
    for piece in pieces:
        yield piece.source if piece.text is None else escaped(next(texts))


def unescaped(text: str) -> str:
    """A text without character references."""
    return html.unescape(LONG_REFERENCE.sub(_shortened, text))


def in_one_line(text: str) -> str:
    """A text whose line breaks are spaces, as in a browser."""
    return re.sub(r"[\s\ufeff]+", lambda found: " " if "\n" in found[0] else found[0], text)


def _shortened(reference: "re.Match[str]") -> str:
    """A character reference for html.unescape, which raises an error for thousands of digits."""
    digits = reference[1].lstrip("0") or "0"
    return f"&#{digits};" if len(digits) < 8 else "\ufffd"


def escaped(text: str) -> str:
    """A text as HTML."""
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def _texts(document: str) -> Iterator[tuple[int, int, bool]]:
    """The start and end of each text to translate, and whether it is preformatted.

    A text may be empty.
    """
    elements = OpenElements()
    end = 0
    while end < len(document):
        found = MARKUP.search(document, end)
        start = len(document) if found is None else found.start()
        yield _text(document, end, start, elements)
        if found is None:
            return
        end = found.end()
        tag = (found["tag"] or "").lower()
        if tag:
            first = end
            while (after := end_of(ATTRIBUTES, document, end)) > end:
                end = after
                yield end, end, False
            attributes, is_self_closing = document[first:end], document.startswith("/", end)
            end = end_of(TAG_END, document, end)
        if found["end"]:
            elements.close(tag)
        elif tag:
            is_raw = tag in RAW and not elements.is_foreign
            elements.open(tag, _treatment(tag, attributes), is_self_closing)
            if is_raw:
                close = RAW[tag].search(document, end)
                start = len(document) if close is None else close.start()
                yield _text(document, end, start, elements)
                end = start
            elif tag == "plaintext" and not elements.is_foreign:
                return
        elif found[0].startswith("<![CDATA[") and elements.is_foreign:
            end = document.find("]]>", found.start()) + 3
            if end < 3:
                return


def end_of(pattern: "re.Pattern[str]", document: str, start: int) -> int:
    """The end of a match at a place; the place without a match."""
    found = pattern.match(document, start)
    return start if found is None else found.end()


def _text(document: str, start: int, end: int, elements: OpenElements) -> tuple[int, int, bool]:
    """See :func:`_texts`."""
    if start < end and not document[start:end].isspace():
        elements.add_text()
        if elements.is_translated:
            return start, end, elements.is_preformatted
    return end, end, False


def _treatment(tag: str, attributes: str) -> Optional[bool]:
    """Whether an element is translated; ``None`` if that depends on the elements around it."""
    if tag in UNTRANSLATED:
        return False
    if "translate" not in attributes.lower():
        return None
    values: dict[str, str] = {}
    for name, value in ATTRIBUTE.findall(attributes):
        # The first one of attributes with the same name counts.
        if name.lower() in ("class", "translate") and name.lower() not in values:
            quote = value[:1] in ('"', "'")
            values[name.lower()] = (value[1:-1] if quote else value).lower()
    is_class = "notranslate" in values.get("class", "").split()
    choices = {"": True, "yes": True, "no": False}
    return choices.get(values.get("translate", "other"), False if is_class else None)
