"""Sentences that go over into each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.common import crossing

TEXT = [
    "Click the button to open the file .",
    "Select the text to change the colour of the line .",
    "Press the key to close the window in the list .",
]


def test_a_beginning_and_an_end_meet_at_a_joint():
    sentences = [tuple(line.split()) for line in TEXT]
    new = crossing.crossed(sentences, 12, seed=1)
    assert len(set(new)) == 12 and not set(new) & set(sentences)
    for sentence in new:
        meets = [
            place
            for place in range(len(sentence))
            if sentence[place] in crossing.JOINTS
            and any(one[:place] == sentence[:place] for one in sentences)
            and any(one[-len(sentence) + place :] == sentence[place:] for one in sentences)
        ]
        assert meets
    assert crossing.crossed(sentences, 12, seed=1) == new != crossing.crossed(sentences, 12, seed=2)


def test_too_few_are_told():
    with pytest.raises(ValueError, match="only 0 of 5"):
        crossing.crossed([tuple(TEXT[0].split())], 5, seed=1)
    with pytest.raises(ValueError, match="only 0 of 5"):
        crossing.crossed([], 5, seed=1)


@given(st.lists(st.lists(st.sampled_from(["a", "the", ",", "x", "y"]), max_size=12).map(tuple)))
def test_lengths(sentences):
    try:
        new = crossing.crossed(sentences, 4, seed=0)
    except ValueError:
        return
    assert all(crossing.SHORTEST <= len(sentence) <= crossing.LONGEST_CROSSED for sentence in new)
