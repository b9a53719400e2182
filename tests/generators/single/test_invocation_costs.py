"""What invocations cost, by the sizes that were measured."""

import pytest
from torch import nn

from fairseq_fastdec.generators.single.invocation_costs import (
    N_REMEMBERED,
    N_SAMPLES,
    InvocationCosts,
    costs_of,
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
    assert [costs.seconds(n) for n in sizes] == pytest.approx([1, 1, 2, 3, 3.5, 4, 8])


def test_the_median_of_the_last_ones():
    costs = InvocationCosts()
    for seconds in (9.0, 1.0):
        costs.learn(4, seconds)
        assert not costs.is_known(4) and costs.seconds(4) == 0
    costs.learn(4, 2.0)
    assert costs.is_known(4) and costs.seconds(4) == 2
    for _ in range(N_REMEMBERED):
        costs.learn(4, 6.0)
    assert costs.seconds(4) == 6


def test_more_tokens_never_take_less():
    assert measured({1: 3.0, 8: 2.0}).seconds(8) == 3


def test_what_is_left_to_measure():
    costs = InvocationCosts()
    asked = []
    while (n := costs.to_measure(3, 20)) is not None:
        asked.append(n)
        costs.learn(3 * n, 1.0 + 0.001 * n)
    assert asked == [n for n in (1, 2, 4, 8, 16) for _ in range(N_SAMPLES)]
    assert costs.to_measure(1, 2) == 1


def test_where_time_grows_as_tokens_do_no_more_is_measured():
    costs = measured({1: 1.0, 2: 1.2})
    assert costs.to_measure(1, 16) == 4
    for _ in range(N_SAMPLES):
        costs.learn(4, 2.3)
    assert costs.to_measure(1, 16) is None


def test_where_there_is_doubt_each_size_is_measured_once_more():
    costs = measured({1: 1.0, 2: 1.2})
    assert costs.to_measure(1, 2) is None
    costs.doubt()
    assert costs.to_measure(1, 2) == 1
    costs.learn(1, 1.0)
    assert costs.to_measure(1, 2) == 2


def test_sizes_that_do_not_come_about_are_not_asked_for_again_and_again():
    costs = measured({1: 1.0})
    asked = [costs.to_measure(1, 2) for _ in range(20)]
    assert asked[0] == 2 and asked[-1] is None


def test_costs_are_kept_with_the_model_and_apart():
    model, other = nn.Linear(1, 1), nn.Linear(1, 1)
    assert costs_of([model], "a") is costs_of([model], "a")
    assert costs_of([model], "a") is not costs_of([model], "b")
    assert costs_of([model], "a") is not costs_of([other], "a")
    assert costs_of([model], "a") is not costs_of([model, other], "a")
