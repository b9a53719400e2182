"""Takes placeholders, such as ``{name}``, ``${0}`` and ``%s``, out of the texts of runs."""

import re
from collections.abc import Iterator

from .markup import escaped
from .runs import MOST_TAGS, InlineElement, Run

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


def runs(given: Run) -> Iterator[Run]:
    """A run whose placeholders are elements; several if a run without tags has more of them than
    :data:`MOST_TAGS`.
    """
    starts = [found.start() for found in PLACEHOLDER.finditer(given.text)]
    cuts = [] if given.elements else starts[MOST_TAGS::MOST_TAGS]
    if not cuts:
        yield _without(given)
        return
    for start, end in zip([0, *cuts], [*cuts, len(given.text)]):
        text = given.text[start:end]
        yield _without(Run(_written(given, text), text, is_html=given.is_html))


def _written(run: Run, text: str) -> str:
    return escaped(text) if run.is_html else text


def _without(given: Run) -> Run:
    """A run without placeholders in its text."""
    text, end = "", 0
    # By place in the given text, the place in this text.
    places = list[int]()
    elements = [*given.elements]
    for found in PLACEHOLDER.finditer(given.text):
        start = found.start()
        text = _added(text, given.text[end:start], places)
        end = found.end()
        after = given.text[end : end + MOST_CHARS]
        text = _left_out(text, after)
        places += [len(text)] * len(found[0])
        beside = (given.text[max(start - 1, 0) : start], after[:1])
        tags = (_written(given, found[0]), "")
        elements.append(InlineElement(start, start, tags, given.path(start), beside))
    text = _added(text, given.text[end:], places)
    places.append(len(text))
    # At the same place, a tag is before a placeholder.
    order = sorted(range(len(elements)), key=lambda number: elements[number].start)
    numbers = {number: at for at, number in enumerate(order)}
    moved = [
        own._replace(
            start=places[own.start],
            end=places[own.end],
            around=tuple(numbers[number] for number in own.around),
        )
        for own in (elements[number] for number in order)
    ]
    return Run(given.source, text, moved, given.is_html)


def _added(text: str, part: str, places: list[int]) -> str:
    """A text and the next part of the given one, without the space behind a first placeholder.

    Args:
        places: see :func:`_without`; those of the part are added.
    """
    n_dropped = 1 if places and not text and part.startswith(" ") else 0
    places += [len(text) + max(at - n_dropped, 0) for at in range(len(part))]
    return text + part[n_dropped:]


def _left_out(text: str, after: str) -> str:
    """The text before a placeholder that is left out.

    A space is removed where it would be double or before punctuation, and added where the texts
    around the placeholder would be another one.

    Args:
        after: the text behind it.
    """
    if text.endswith(" ") and BEHIND_WORDS.match(after):
        text = text[:-1]
    before = text[-MOST_CHARS:]
    joined = PLACEHOLDER.search(before + after)
    is_other = joined is not None and joined.start() < len(before)
    return text + " " if is_other else text
