"""Subwords for people: marked, or joined to words; and still the tokens that they are."""

import json

import pytest

from fairseq_fastdec.tools.visualize import SentenceTrace, TraceStep, document
from fairseq_fastdec.tools.visualize.subwords import CHOICES, Spelling

SUFFIXED = ["Rah@@", "men@@", "vorlage", ".", "</s>"]
PREFIXED = ["▁Rah", "men", "vorlage", ".", "</s>"]


def spelling(tokens, how):
    return Spelling.from_trace(SentenceTrace(0, tokens, tokens, subwords=how))


@pytest.mark.parametrize(
    "tokens, how, labels",
    [
        (SUFFIXED, "show", SUFFIXED),
        (SUFFIXED, "mark", ["Rah·", "men·", "vorlage", ".", "</s>"]),
        (SUFFIXED, "join", ["Rah", "men", "vorlage", ".", "</s>"]),
        (PREFIXED, "show", PREFIXED),
        (PREFIXED, "mark", ["Rah", "·men", "·vorlage", "·.", "</s>"]),
        (PREFIXED, "join", ["Rah", "men", "vorlage", ".", "</s>"]),
    ],
)
def test_labels(tokens, how, labels):
    assert [spelling(tokens, how).label(token) for token in tokens] == labels
    changed = {token: label for token, label in zip(tokens, labels) if token != label}
    assert spelling(tokens, how).labels(tokens) == changed


def test_words():
    assert spelling(SUFFIXED, "join").joined(SUFFIXED) == [(0, 3, "Rahmenvorlage")]
    assert spelling(PREFIXED, "join").joined(PREFIXED) == [(0, 4, "Rahmenvorlage.")]
    assert spelling(SUFFIXED, "mark").joined(SUFFIXED) == []
    assert spelling(SUFFIXED, "join").joined(["cut@@", "</s>"]) == []
    assert spelling(SUFFIXED, "join").joined([]) == []


def test_text():
    assert spelling(SUFFIXED, "show").text(SUFFIXED[:-1]) == "Rah@@ men@@ vorlage ."
    for how in ("mark", "join"):
        assert spelling(SUFFIXED, how).text(SUFFIXED[:-1]) == "Rahmenvorlage ."
        assert spelling(PREFIXED, how).text(PREFIXED[:-1]) == "Rahmenvorlage."


@pytest.mark.parametrize("how", CHOICES)
def test_tokens_that_look_alike_stay_two(how):
    """An answer "men" is not the output's "men@@"."""
    steps = [
        TraceStep(0, ["men"], ["Rah@@", "men"], [0.5, 0.5], 1),
        TraceStep(1, [], ["men@@"], [0.5], 1),
    ]
    trace = SentenceTrace(0, ["</s>"], ["Rah@@", "men@@"], steps, subwords=how)
    (sentence,) = json.loads(document.write([trace]))["sentences"]
    assert sentence["cells"] == [["found", "wrong"], [None, "found"]]
    assert sentence["subwords"] == how
    assert document.read(document.write([trace])) == [trace]
