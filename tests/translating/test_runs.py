"""Translations of runs get their tags back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.translating.runs import InlineElement, Run, spans


@pytest.mark.parametrize(
    "text, subwords, expected",
    [
        ("Don't stop.", ["Don", "&apos;t", "sto@@", "p", "."], ["Don", "'t", "sto", "p", "."]),
        ("a well-known", ["▁a", "▁well", "-", "know", "n"], ["a", "well", "-", "know", "n"]),
        ("x-y", ["x", "@-@", "y"], ["x", "-", "y"]),
        ("ab", ["?", "b"], ["", "b"]),
    ],
)
def test_places_of_subwords(text, subwords, expected):
    assert [text[start:end] for start, end in spans(text, subwords)] == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), max_size=5))
def test_elements_around_a_place(bounds):
    elements = [InlineElement(*own, ("<b>", "</b>"), ()) for own in sorted(bounds)]
    run = Run("", "x" * 10, elements)
    for place in range(11):
        around = [n for n, own in enumerate(elements) if own.start <= place < own.end]
        assert run.path(place) == (*around,)
    parts = run.divided(run.text[2:9], 2)
    assert "".join(part.text for part in parts) == run.text[2:9]
    for part in parts:
        assert {run.path(part.place + at) for at in range(len(part.text))} == {part.path}
        assert not any(part.place < own.start < part.place + len(part.text) for own in elements)
