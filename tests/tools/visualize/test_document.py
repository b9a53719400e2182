"""JSON: what is written is read again; what is not ours is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.tools.visualize import SentenceTrace, TraceStep, document

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def traces(draw):
    tokens = draw(st.lists(TEXT, min_size=1, max_size=6))
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        answers = draw(st.lists(TEXT, min_size=1, max_size=6))
        drafts = draw(st.lists(TEXT, min_size=len(answers) - 1, max_size=len(answers) - 1))
        probabilities = [draw(st.floats(0, 1)) for _ in answers]
        first = draw(st.integers(0, len(tokens)))
        settled = draw(st.integers(0, len(answers)))
        steps.append(TraceStep(first, drafts, answers, probabilities, settled))
    method = draw(st.sampled_from(["jacobi", "blockwise"]))
    source = draw(st.lists(TEXT, max_size=4))
    blocks = draw(st.lists(st.integers(1, 9), max_size=3))
    return SentenceTrace(draw(st.integers(0, 99)), source, tokens, steps, method, blocks=blocks)


@given(st.lists(traces(), max_size=3))
def test_round_trip(many):
    assert document.read(document.write(many)) == many


def test_what_is_derived_is_written_too():
    trace = SentenceTrace(0, ["x"], ["a", "b"], [TraceStep(0, ["?"], ["a", "b"], [0.75, 0.5], 1)])
    written = json.loads(document.write([trace]))
    assert (written["format"], written["version"]) == ("fairseq_fastdec.ddgviz", 1)
    (sentence,) = written["sentences"]
    assert sentence["steps"] == [
        {
            "first": 0,
            "drafts": ["?"],
            "answers": ["a", "b"],
            "probabilities": [0.75, 0.5],
            "settled": 1,
            "frontier": 1,
        }
    ]
    assert sentence["decoded"] == [
        {"step": 0, "context": 0, "parallel": False, "guessed": False},
        {"step": 0, "context": 0, "parallel": True, "guessed": False},
    ]
    assert sentence["edges"] == [[-1, 0], [-1, 1]]
    assert sentence["cells"] == [["found", "found"]]


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "not a fairseq_fastdec.ddgviz document"),
        ('{"format": "other"}', "not a fairseq_fastdec.ddgviz document"),
        ('{"format": "fairseq_fastdec.ddgviz", "version": 2}', "only version 1 is supported"),
        ("no JSON", "Expecting value"),
    ],
)
def test_other_files_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        document.read(text)
