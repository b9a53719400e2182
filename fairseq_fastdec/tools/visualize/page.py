"""All sentences as one interactive HTML page that needs nothing else, not even a network."""

from collections.abc import Sequence
from pathlib import Path

from . import document
from .trace import SentenceTrace

DATA = "/* DATA */"
TEMPLATE = Path(__file__).with_name("page.html")


def write(traces: Sequence[SentenceTrace]) -> str:
    """The page, as HTML text. Tokens are data in it: none of them can become markup."""
    # Inside a script element only "<" can end or change anything.
    data = document.write(traces).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace(DATA, data)
