"""What invocations cost, by the sizes that were measured."""

import pytest

from fairseq_fastdec.generators.single.invocation_costs import (
    N_REMEMBERED,
    N_SAMPLES,
    InvocationCosts,
)


def measured(seconds_of):
    costs = InvocationCosts()
    for n_tokens, seconds in seconds_of.items():
        for _ in range(N_SAMPLES):
            costs.learn(n_tokens, seconds)
    return costs


def test_between_and_beyond_what_was_measured():
    costs = measured({2: 1.0, 4: 3.0, 16: 4.0})
    sizes = (1, 2, 3, 4, 10, 16, 32)
    assert [costs.seconds(n) for n in sizes] == pytest.approx([1, 1, 2, 3, 3.5, 4, 4])
    assert costs.largest == 16 and InvocationCosts().largest == 0


def test_the_median_of_the_last_ones():
    costs = InvocationCosts()
    costs.learn(4, 9.0)
    assert not costs.is_known(4) and costs.seconds(4) == 0
    costs.learn(4, 2.0)
    assert costs.is_known(4) and costs.seconds(4) == 2
    for _ in range(N_REMEMBERED):
        costs.learn(4, 6.0)
    assert costs.seconds(4) == 6


def test_costs_that_hardly_differ_are_the_same():
    costs = measured({4: 1.0})
    for _ in range(N_REMEMBERED):
        costs.learn(4, 1.02)
    assert costs.seconds(4) == 1
    for _ in range(N_REMEMBERED):
        costs.learn(4, 1.05)
    assert costs.seconds(4) == 1.05


def test_more_tokens_never_take_less():
    assert measured({1: 3.0, 8: 2.0}).seconds(8) == 3


def test_the_log_says_what_was_measured():
    assert measured({1: 0.001, 4: 0.002}).summary() == "1.00 ms for 1, 2.00 ms for 4"
    assert InvocationCosts().summary() == ""
