"""When sentences begin and go on: capacity, refill threshold, policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.generators.beams.schedule import AllAtOnce, Capacity, Stream

NONE = np.zeros(0, dtype=np.int64)


def stream(source_tokens, capacity, threshold=1 / 6, policy="min-length", width=5):
    return Stream(source_tokens, capacity, threshold, policy, width)


def ones(n):
    return np.ones(n, dtype=np.int64)


def test_a_batch_begins_at_once_in_its_order():
    batch = AllAtOnce(3)
    assert batch.due(NONE, NONE) == [0, 1, 2]
    assert batch.due(np.array([0, 1]), ones(2)) == []
    assert batch.refills == 0


def test_without_limits_a_stream_begins_at_once():
    assert sorted(stream([3, 9, 4], Capacity()).due(NONE, NONE)) == [0, 1, 2]


def test_the_longest_begin_first_and_the_stream_is_refilled_below_the_threshold():
    """n = 6, epsilon = 1/6: refilled to 6 as soon as one sentence is left (Algorithm 1)."""
    schedule = stream([1, 2, 3, 4, 5, 6, 7, 8], Capacity(sentences=6))
    assert schedule.due(NONE, NONE) == [7, 6, 5, 4, 3, 2]
    assert schedule.due(np.array([7, 2]), ones(2)) == []
    assert schedule.refills == 0
    assert schedule.due(np.array([7]), ones(1)) == [1, 0]
    assert schedule.refills == 1
    assert schedule.due(NONE, NONE) == []


def test_a_threshold_of_zero_waits_until_nothing_is_left():
    schedule = stream([1] * 4, Capacity(sentences=2), threshold=0.0)
    schedule.due(NONE, NONE)
    assert schedule.due(np.array([3]), ones(1)) == []
    assert len(schedule.due(NONE, NONE)) == 2


def test_capacity_in_source_tokens():
    schedule = stream([9, 50, 9, 9], Capacity(source_tokens=20), threshold=0.5)
    assert schedule.due(NONE, NONE) == [1], "a sentence beyond the capacity goes alone"
    assert schedule.due(np.array([1]), ones(1)) == []
    assert len(schedule.due(NONE, NONE)) == 2


def test_capacity_in_rows_counts_with_the_mean_width():
    schedule = stream([5] * 40, Capacity(rows=20), width=5)
    assert len(schedule.due(NONE, NONE)) == 4
    for _ in range(50):
        schedule.choose(ones(4), ones(4))
    assert len(schedule.due(NONE, NONE)) > 15


def test_the_tightest_limit_counts():
    schedule = stream([5] * 40, Capacity(sentences=30, source_tokens=50, rows=1000))
    assert len(schedule.due(NONE, NONE)) == 10


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
    lengths, widths = np.array([7, 2, 2, 5]), np.array([3, 4, 2, 4])
    assert np.flatnonzero(schedule.choose(lengths, widths)).tolist() == chosen


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
        due = schedule.due(np.array(list(live), np.int64), np.array([w for w, _ in live.values()]))
        begun += due
        live.update({number: (1, 0) for number in due})
        if not live:
            break
        assert sentences is None or len(live) <= sentences
        used = sum(source_tokens[number] for number in live)
        assert tokens is None or used <= tokens or len(live) == 1
        widths, lengths = (np.array(column) for column in zip(*live.values()))
        chosen = schedule.choose(lengths, widths)
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
    assert batch.due(np.zeros(0, int), np.zeros(0, int)) == [0, 1, 2]
    assert batch.due(np.arange(3), np.ones(3, int)) == []
    assert batch.choose(np.array([1, 2, 2]), np.array([1, 5, 1])).tolist() == [True] * 3


def test_a_sentence_counts_with_the_mean_width_so_far():
    stream = Stream([4] * 9, Capacity(rows=12), 1.0, "min-length", width=6)
    assert len(stream.due(np.zeros(0, int), np.zeros(0, int))) == 2
    # Three beams of 1 entry and the width of 6 with which the first ones counted: 9 / 4.
    stream.choose(np.array([1, 1, 1]), np.array([1, 1, 1]))
    assert len(stream.due(np.arange(2), np.array([1, 1]))) == 4
