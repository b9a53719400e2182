"""Fonts and writing directions of token labels in matplotlib's pictures."""

import logging
import unicodedata
from functools import cache

from matplotlib import font_manager, ft2font

logger = logging.getLogger(__name__)

DEFAULT_FAMILY = "DejaVu Sans"
REGULAR = (400, 500, "normal", "regular", "medium")
UNDRAWABLE = ("Cc", "Cs", "Cn", "Zl", "Zp")
# matplotlib's own last resort draws a box that names the script: no glyph anyone can read.
NO_FONT = "Last Resort"


def families(text: str) -> list[str]:
    """Font families that together have the glyphs of ``text``, the default first.

    Characters that no installed font has are logged.
    """
    wanted = {ord(c) for c in text if not c.isspace() and unicodedata.category(c)[0] != "C"}
    chosen = [DEFAULT_FAMILY]
    missing = wanted - _characters(font_manager.findfont(DEFAULT_FAMILY))
    if missing:
        _add_new_fonts()
        chosen += _covering(missing)
    if missing:
        letters = "".join(chr(c) for c in sorted(missing)[:10])
        logger.warning(
            "no installed font has %r (%d in all): the PNG shows boxes there; install a "
            "font for this script, such as one of the Noto fonts. SVG and HTML use the "
            "viewer's fonts",
            letters,
            len(missing),
        )
    return chosen


def _covering(missing: set[int]) -> list[str]:
    """The families that between them have what is missing, which is taken out of the set."""
    candidates = {
        entry.name: entry.fname
        for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: entry.fname)
        if not entry.name.startswith(NO_FONT)
        and entry.style == "normal"
        and entry.weight in REGULAR
    }
    chosen = []
    while missing and candidates:
        best = max(candidates, key=lambda name: len(missing & _characters(candidates[name])))
        found = missing & _characters(candidates.pop(best))
        if not found:
            break
        missing -= found
        chosen.append(best)
    return chosen


@cache
def _add_new_fonts() -> None:
    """matplotlib keeps a list of fonts on disk and does not look again."""
    listed = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in listed:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError, ValueError):
                logger.debug("%s: not a font that matplotlib can read", path)


@cache
def _characters(path: str) -> frozenset[int]:
    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError, ValueError):
        return frozenset()


def drawable(text: str) -> str:
    """The label with a sign for control characters, which neither a picture nor XML can hold."""
    return "".join("\ufffd" if unicodedata.category(c) in UNDRAWABLE else c for c in text)


def is_right_to_left(text: str) -> bool:
    """Whether the first letter with a direction is written from right to left."""
    directions = (unicodedata.bidirectional(c) for c in text)
    return next((d for d in directions if d in ("L", "R", "AL")), "L") != "L"


def for_svg(text: str) -> str:
    """The text with marks that keep ``@@`` and ``▁`` on their side of a right-to-left word.

    Who draws an SVG knows writing directions, but takes the surroundings to be left-to-right.
    """
    return f"\u200f{text}\u200f" if is_right_to_left(text) else text


def for_png(text: str) -> str:
    """Right-to-left text as a matplotlib that knows no writing direction has to get it.

    matplotlib 3.11 and later do it themselves, with libraqm. For older ones the ``viz`` extra
    brings python-bidi and arabic-reshaper; without them the text is returned as it is.
    """
    if getattr(ft2font, "__libraqm_version__", None):
        return text
    if not any(unicodedata.bidirectional(c) in ("R", "AL") for c in text):
        return text
    try:
        from arabic_reshaper import reshape
        from bidi.algorithm import get_display
    except ImportError:
        _warn_of_reversed_labels()
        return text
    return get_display(reshape(text))


@cache
def _warn_of_reversed_labels() -> None:
    logger.warning(
        "right-to-left labels of the PNG come out reversed: pip install python-bidi "
        "arabic-reshaper, or matplotlib 3.11 or later"
    )
