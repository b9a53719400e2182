"""Fonts and writing directions of token labels in matplotlib figures."""

import logging
import unicodedata
from functools import cache

from matplotlib import font_manager, ft2font

logger = logging.getLogger(__name__)

DEFAULT_FAMILY = "DejaVu Sans"
REGULAR = (400, 500, "normal", "regular", "medium")
UNDRAWABLE = ("Cc", "Cs", "Cn", "Zl", "Zp")
# matplotlib's fallback font, which only draws boxes with the name of the script.
NO_FONT = "Last Resort"


def families(text: str) -> list[str]:
    """Font families that together contain the glyphs of ``text``, the default first.

    Characters that are in no installed font are logged.
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
    """Families that contain the missing characters, which are removed from the set."""
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
    """Add fonts that are not in matplotlib's cached list."""
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
    """Replace control characters, which are invalid in pictures and XML."""
    return "".join("\ufffd" if unicodedata.category(c) in UNDRAWABLE else c for c in text)


def is_right_to_left(text: str) -> bool:
    """Whether the first letter with a direction is right-to-left."""
    directions = (unicodedata.bidirectional(c) for c in text)
    return next((d for d in directions if d in ("L", "R", "AL")), "L") != "L"


def for_svg(text: str) -> str:
    """Add marks that keep ``@@`` and ``▁`` on the correct side of a right-to-left word.

    Viewers of SVG support writing directions, but assume left-to-right context.
    """
    return f"\u200f{text}\u200f" if is_right_to_left(text) else text


def for_png(text: str) -> str:
    """Reorder right-to-left text for versions of matplotlib without support for it.

    matplotlib 3.11 and later reorder text with libraqm. For older versions the ``viz`` extra
    installs python-bidi and arabic-reshaper; without them the text is returned unchanged.
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
        "right-to-left labels are reversed in the PNG: pip install python-bidi arabic-reshaper, or "
        "matplotlib 3.11 or later"
    )
