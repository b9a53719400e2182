"""Texts with placeholders, such as ``{name}``, ``${0}`` and ``%s``, as runs without them."""

import re
from collections.abc import Iterator

from .inline_tags import MOST_TAGS, InlineElement, Run

# Those of printf need a type, and no letter after it.
PLACEHOLDER = re.compile(
    r"""(?x)
    \$? \{\{? [^{}\s]{0,64} \}\}?
    | % (?: \(\w{1,64}\) | \d{1,2}\$ )? [-+\#]? \d{0,3} (?: \.\d{1,3} )?
      (?: hh? | ll? | [jztL] )? [diouxXeEfFgGcsa@] (?!\w)
    """
)
# No placeholder is longer.
MOST_CHARS = 80
# What can follow a word without white space.
BEHIND_WORDS = re.compile(r"[\s,.;:!?)\]]|$")


def runs(text: str) -> Iterator[Run]:
    """Divide a text into runs with at most :data:`MOST_TAGS` placeholders each."""
    end, run = 0, Run("", "", is_html=False)
    for found in PLACEHOLDER.finditer(text):
        if len(run.elements) == MOST_TAGS:
            yield run
            run = Run("", "", is_html=False)
        _add(run, text[end : found.start()])
        end = found.end()
        run.source += found[0]
        before = text[max(found.start() - 1, 0) : found.start()]
        after = text[end : end + MOST_CHARS]
        _leave_out(run, after)
        place = len(run.text)
        element = InlineElement(place, place, (found[0], ""), (), (before, after[:1]))
        run.elements.append(element)
    _add(run, text[end:])
    yield run


def _add(run: Run, text: str) -> None:
    """Add a text to a run, whose text does not begin with the space behind a placeholder."""
    run.source += text
    run.text += text[1:] if run.elements and not run.text and text.startswith(" ") else text


def _leave_out(run: Run, after: str) -> None:
    """End a text where a placeholder was.

    A space is removed where it would be double or before punctuation, and added where the texts
    around the placeholder would be another one.

    Args:
        after: the text behind it.
    """
    if run.text.endswith(" ") and BEHIND_WORDS.match(after):
        run.text = run.text[:-1]
    before = run.text[-MOST_CHARS:]
    joined = PLACEHOLDER.search(before + after)
    if joined is not None and joined.start() < len(before):
        run.text += " "
