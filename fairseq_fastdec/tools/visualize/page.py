"""Writes all sentences as one self-contained interactive HTML page."""

from collections.abc import Sequence
from pathlib import Path

from . import document
from .trace import SentenceTrace

DATA = "/* DATA */"
TEMPLATE = Path(__file__).with_name("page.html")


def write(traces: Sequence[SentenceTrace]) -> str:
    """The page as HTML text. Tokens are embedded as data and cannot become markup."""
    # Inside a script element only "<" is special.
    data = document.write(traces).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace(DATA, data)
