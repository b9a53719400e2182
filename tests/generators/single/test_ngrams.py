"""Pools of n-grams in Python, and by compiled code where there is any."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.generators.single.ngrams import NgramPools, ngram_pools

EOS = 0
ROW = torch.tensor([0])


def pool_of(make, order, capacity=500, context=()):
    pool = make(order, EOS, capacity)
    reopen(pool, order, context)
    return pool


def reopen(pool, order, context):
    padded = [-1] * (order - 1) + list(context)
    pool.open(torch.tensor([padded[len(context) :]]), torch.tensor([0]))


def learn(pool, tokens):
    pool.learn(ROW, torch.tensor([tokens]).long(), torch.tensor([len(tokens)]))


def guess(pool, order, context, kept, n_fixed=0):
    reopen(pool, order, context)
    guesses, sizes = pool.guess(ROW, torch.tensor([kept]), torch.tensor([n_fixed]))
    return guesses[0].tolist(), sizes[0].tolist()


@pytest.mark.parametrize("make", [ngram_pools, NgramPools])
def test_the_most_recent_successor_of_the_longest_context(make):
    pool = pool_of(make, 3)
    learn(pool, [1, 2, 3, 9, 2, 4, 5, 2, 6])
    assert guess(pool, 3, [1, 2], [7]) == ([3], [2])
    assert guess(pool, 3, [9, 2], [7, 7]) == ([4, 5], [2, 2])
    assert guess(pool, 3, [7, 2], [7]) == ([6], [1])
    assert guess(pool, 3, [7, 7], [8, 7]) == ([8, 7], [0, 0])
    assert guess(pool, 3, [1, 2], [7, 7], n_fixed=1) == ([7, 7], [0, 0])


@pytest.mark.parametrize("make", [ngram_pools, NgramPools])
def test_nothing_is_learned_behind_the_end(make):
    pool = pool_of(make, 2)
    learn(pool, [5, EOS, 6, 7])
    assert guess(pool, 2, [5], [9]) == ([EOS], [1])
    assert guess(pool, 2, [6], [9]) == ([9], [0])


@pytest.mark.parametrize("make", [ngram_pools, NgramPools])
def test_what_is_forgotten(make):
    pool = pool_of(make, 2)
    learn(pool, [5, 6])
    pool.forget()
    assert guess(pool, 2, [5], [9]) == ([9], [0])


@given(
    tokens=st.lists(st.integers(1, 5), max_size=60),
    order=st.integers(2, 5),
    capacity=st.integers(5, 30),
    context=st.lists(st.integers(1, 5), min_size=4, max_size=4),
)
def test_a_bounded_pool_only_forgets(tokens, order, capacity, context):
    unbounded, bounded = pool_of(NgramPools, order), pool_of(NgramPools, order, capacity)
    for token in tokens:
        learn(unbounded, [token])
        learn(bounded, [token])
    assert len(bounded._young) + len(bounded._old) <= 2 * (capacity + order)
    if len(unbounded._young) <= capacity:
        kept = [9] * 6
        ours, theirs = (guess(pool, order, context, kept) for pool in (bounded, unbounded))
        assert ours == theirs
