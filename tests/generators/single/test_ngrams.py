"""The pool of n-grams."""

from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.generators.single.ngrams import NgramPool


def test_the_most_recent_successor_of_the_longest_context():
    pool = NgramPool(3)
    pool.learn([1, 2, 3, 9, 2, 4, 5, 2, 6], 9)
    assert pool.continued([1, 2], [0], 0) == [3]
    assert pool.continued([9, 2], [0, 0], 0) == [4, 5]
    assert pool.continued([7, 2], [0], 0) == [6]
    assert pool.continued([7, 7], [8, 0], 0) == [8, 0]


@given(
    tokens=st.lists(st.integers(0, 5), max_size=60),
    order=st.integers(2, 5),
    capacity=st.integers(5, 30),
    context=st.lists(st.integers(0, 5), min_size=4, max_size=4),
)
def test_a_bounded_pool_only_forgets(tokens, order, capacity, context):
    unbounded, bounded = NgramPool(order), NgramPool(order, capacity)
    padded = [-1] * (order - 1) + tokens
    for pool in (unbounded, bounded):
        for end in range(order, len(padded) + 1):
            pool.learn(padded[:end], 1)
    size = len(bounded._young) + len(bounded._old)
    assert size <= 2 * (capacity + order)
    if len(unbounded._young) <= capacity:
        assert bounded.continued(context, [9] * 6, 0) == unbounded.continued(context, [9] * 6, 0)
