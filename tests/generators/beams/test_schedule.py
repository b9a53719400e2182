"""When sentences begin and go on: capacity, refill threshold, policy."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.generators.beams.schedule import AllAtOnce, Capacity, Stream


class UnderWay(NamedTuple):
    """The sentences that a search decodes."""

    numbers: np.ndarray
    lengths: np.ndarray
    widths: np.ndarray


def under_way(numbers=(), lengths=None, widths=None):
    """Sentences of one row, and of one token, unless more is said."""
    numbers = np.array(numbers, dtype=np.int64)
    ones = np.ones_like(numbers)
    lengths, widths = (ones if own is None else np.array(own) for own in (lengths, widths))
    return UnderWay(numbers, lengths, widths)


NONE = under_way()


def stream(source_tokens, capacity, threshold=1 / 6, policy="min-length", width=5):
    return Stream(source_tokens, capacity, threshold, policy, width)


def test_a_batch_begins_at_once_in_its_order():
    batch = AllAtOnce(3)
    assert batch.due(NONE) == [0, 1, 2]
    assert batch.due(under_way([0, 1])) == []
    assert batch.refills == 0


def test_without_limits_a_stream_begins_at_once():
    assert sorted(stream([3, 9, 4], Capacity()).due(NONE)) == [0, 1, 2]


def test_the_longest_begin_first_and_the_stream_is_refilled_below_the_threshold():
    """n = 6, epsilon = 1/6: refilled to 6 as soon as one sentence is left (Algorithm 1)."""
    schedule = stream([1, 2, 3, 4, 5, 6, 7, 8], Capacity(sentences=6))
    assert schedule.due(NONE) == [7, 6, 5, 4, 3, 2]
    assert schedule.due(under_way([7, 2])) == []
    assert schedule.refills == 0
    assert schedule.due(under_way([7])) == [1, 0]
    assert schedule.refills == 1
    assert schedule.due(NONE) == []


def test_a_threshold_of_zero_waits_until_nothing_is_left():
    schedule = stream([1] * 4, Capacity(sentences=2), threshold=0.0)
    schedule.due(NONE)
    assert schedule.due(under_way([3])) == []
    assert len(schedule.due(NONE)) == 2


def test_capacity_in_source_tokens():
    schedule = stream([9, 50, 9, 9], Capacity(source_tokens=20), threshold=0.5)
    assert schedule.due(NONE) == [1], "a sentence beyond the capacity goes alone"
    assert schedule.due(under_way([1])) == []
    assert len(schedule.due(NONE)) == 2


def test_a_sentence_waits_for_room_beside_others():
    """With no room for it nothing is refilled, and nothing is counted."""
    schedule = stream([12, 11, 2], Capacity(source_tokens=12), threshold=0.2)
    assert schedule.due(NONE) == [0]
    assert schedule.due(under_way([2])) == []
    assert schedule.refills == 0
    assert schedule.due(NONE) == [1]
    assert schedule.due(under_way([])) == [2]
    assert schedule.due(NONE) == []
    assert schedule.refills == 2


def test_capacity_in_rows_counts_with_the_mean_width():
    schedule = stream([5] * 40, Capacity(rows=20), width=5)
    assert len(schedule.due(NONE)) == 4
    for _ in range(50):
        schedule.choose(under_way(range(4)))
    assert len(schedule.due(NONE)) > 15


def test_beside_a_number_of_sentences_rows_limit_the_steps_alone():
    """Section 3: more sentences wait than a step expands, so that every step can be full."""
    schedule = stream([5] * 40, Capacity(sentences=30, rows=20), width=5)
    assert len(schedule.due(NONE)) == 30
    chosen = schedule.choose(under_way(range(30), widths=[3] * 30))
    assert chosen.sum() == 6
    assert schedule.due(under_way(range(6))) == []
    assert len(schedule.due(under_way(range(5)))) == 10


def test_the_tightest_limit_counts():
    schedule = stream([5] * 40, Capacity(sentences=30, source_tokens=50, rows=1000))
    assert len(schedule.due(NONE)) == 10


@pytest.mark.parametrize(
    "policy, rows, chosen",
    [
        ("min-length", None, [1, 2]),
        ("min-length", 5, [1]),
        ("fifo", None, [0, 1, 2, 3]),
        ("fifo", 7, [0, 3]),
    ],
)
def test_policies(policy, rows, chosen):
    schedule = stream([1] * 4, Capacity(rows=rows), policy=policy)
    search = under_way(range(4), lengths=[7, 2, 2, 5], widths=[3, 4, 2, 4])
    assert np.flatnonzero(schedule.choose(search)).tolist() == chosen


@given(
    st.lists(st.integers(1, 30), max_size=40),
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(1, 90)),
    st.one_of(st.none(), st.integers(5, 40)),
    st.floats(0, 0.99),
    st.sampled_from(["min-length", "fifo"]),
    st.randoms(),
)
def test_every_sentence_begins_once_within_the_capacity(
    source_tokens, sentences, tokens, rows, threshold, policy, random
):
    schedule = stream(source_tokens, Capacity(sentences, tokens, rows), threshold, policy)
    live, begun = {}, []
    for _ in range(100000):
        due = schedule.due(under_way(list(live), widths=[w for w, _ in live.values()]))
        begun += due
        live.update({number: (1, 0) for number in due})
        if not live:
            break
        assert sentences is None or len(live) <= sentences
        used = sum(source_tokens[number] for number in live)
        assert tokens is None or used <= tokens or len(live) == 1
        widths, lengths = (np.array(column) for column in zip(*live.values()))
        chosen = schedule.choose(under_way(list(live), lengths, widths))
        assert chosen.any()
        assert rows is None or widths[chosen].sum() <= rows
        for number, goes_on in zip(list(live), chosen):
            if goes_on and random.random() < 0.2:
                del live[number]
            elif goes_on:
                live[number] = (random.randint(1, 5), live[number][1] + 1)
    assert sorted(begun) == list(range(len(source_tokens)))


def test_a_batch_goes_on_as_a_whole():
    batch = AllAtOnce(3)
    assert batch.due(NONE) == [0, 1, 2]
    assert batch.due(under_way(range(3))) == []
    assert batch.choose(under_way(range(3), lengths=[1, 2, 2], widths=[1, 5, 1])) is None


def test_a_sentence_counts_with_the_mean_width_so_far():
    stream = Stream([4] * 9, Capacity(rows=12), 1.0, "min-length", width=6)
    assert len(stream.due(NONE)) == 2
    # Three beams of 1 entry and the width of 6 with which the first ones counted: 9 / 4.
    stream.choose(under_way(range(3)))
    assert len(stream.due(under_way(range(2)))) == 4
