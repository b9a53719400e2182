"""How many proposals are worth their time."""

import numpy as np
import pytest

from fairseq_fastdec.generators.single.invocation_costs import N_SAMPLES, InvocationCosts
from fairseq_fastdec.generators.single.pace import (
    N_UNTIL_LARGER,
    SIZES,
    AcceptanceRates,
    Pace,
    running_sums,
)


def costs_that(seconds):
    costs = InvocationCosts()
    for n_tokens in (1, 2, 3, 4, 8, 16, 32):
        for _ in range(N_SAMPLES):
            costs.learn(n_tokens, seconds(n_tokens))
    return costs


def pace_of(seconds):
    return Pace(costs_that(seconds))


def test_where_tokens_cost_nothing_all_are_verified():
    size, worth = pace_of(lambda n: 1.0).best_size([0.1, 0.2, 0.3], 1)
    assert size == 3 and worth == pytest.approx(0.3)


def test_where_tokens_cost_as_much_as_steps_none_is_worth_it():
    pace = pace_of(float)
    size, worth = pace.best_size([0.9, 1.7], 1)
    assert worth < pace.worth(1, 1, 0) == 0


def test_the_best_size_gives_the_best_rate():
    """Two thirds are accepted, one by one; a token costs a fifth of an invocation."""

    def seconds(n):
        return 1.0 + 0.2 * (n - 1)

    gains = np.cumsum([(2 / 3) ** n for n in range(1, 16)]).tolist()
    pace, best = pace_of(seconds), None
    for _ in range(50):
        best = pace.best_size(gains, 1)[0]
        pace.learn(1 + ([0.0] + gains)[best], seconds(1 + best))
    rates = {n: (1 + ([0.0] + gains)[n]) / seconds(1 + n) for n in SIZES if n <= 15}
    assert rates[best] > 0.99 * max(rates.values()) and best > 0


def test_larger_sizes_are_tried_step_by_step_while_they_are_worth_it():
    costs = InvocationCosts()
    pace, tried = Pace(costs), []
    for n in [1] * N_SAMPLES:
        costs.learn(n, 1.0)
    for _ in range(20):
        size, _ = pace.best_size([0.5, 0.8, 1.0, 1.1, 1.15, 1.16, 1.17], 1)
        costs.learn(1 + size, 1.0 if size < 3 else 2.0)
        tried.append(size)
    assert tried[: 2 * N_SAMPLES] == [n for n in (1, 3) for _ in range(N_SAMPLES)]
    assert set(tried[2 * N_SAMPLES :]) == {1}


@pytest.mark.parametrize("more, larger", [(0.2, 3), (0.05, 2)])
def test_a_size_that_seemed_too_dear_is_measured_again_if_it_brings_more(more, larger):
    pace = pace_of(lambda n: 1.0 if n < 4 else 3.0)
    gains = [0.5, 0.9, 0.9 + more]
    sizes = [pace.best_size(gains, 1)[0] for _ in range(2 * N_UNTIL_LARGER)]
    assert sizes == 2 * ([2] * (N_UNTIL_LARGER - 1) + [larger])


def test_without_proposals_there_is_no_size():
    assert pace_of(float).best_size([], 1) == (0, -np.inf)


def test_the_rate_is_at_least_that_without_proposals():
    pace = pace_of(lambda n: 0.5)
    assert pace.rate(1) == 2 and pace.rate(4) == 8
    pace.learn(3, 0.5)
    assert pace.rate(1) == 6
    for _ in range(1000):
        pace.learn(1, 5.0)
    assert pace.rate(1) == 2


def test_rates_begin_as_guessed_and_become_what_was_seen():
    rates = AcceptanceRates([0.5, 0.1])
    assert rates.rates.tolist() == [0.5, 0.1]
    for _ in range(5000):
        rates.learn(np.array([0, 0, 0, 0]), np.array([0]))
    assert rates.rates[0] == pytest.approx(0.25, abs=0.01) and rates.rates[1] == 0.1
    for _ in range(1000):
        rates.learn(np.array([0, 0]), np.array([0, 0]))
    assert rates.rates[0] > 0.6


def test_sums_over_rows():
    assert running_sums(np.array([[0.5, 0.25], [0.5, 0.0]])) == [1.0, 1.25]
