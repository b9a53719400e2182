"""The search that decodes a batch, with times that are known."""

import math

import pytest

from fairseq_fastdec.generators.single.faster_search import (
    ENOUGH_TOKENS,
    FIRST_REST,
    N_OF_TRIAL,
    N_REMEMBERED,
    SearchExperience,
    SearchTimes,
)


def choices(times, n, seconds, n_tokens=20):
    """Who decoded n batches, whose tokens take ``seconds(number, n before)``."""
    chosen = []
    for _ in range(n):
        number = times.choose()
        times.learn(number, n_tokens * seconds(number, len(chosen)), n_tokens)
        chosen.append(number)
    return chosen


@pytest.mark.parametrize("fastest", [0, 1, 2])
def test_the_fastest_search_decodes_most_batches(fastest):
    chosen = choices(SearchTimes(3), 4000, lambda number, _: 0.5 if number == fastest else 1.0)
    first = [number for number in range(3) for _ in range(N_OF_TRIAL)]
    assert chosen[: 3 * N_OF_TRIAL] == first
    assert chosen[3 * N_OF_TRIAL : FIRST_REST] == [fastest] * (FIRST_REST - 3 * N_OF_TRIAL)
    others = [number for number in chosen if number != fastest]
    assert len(others) == 2 * N_OF_TRIAL * (1 + math.floor(math.log2(1 + 4000 / FIRST_REST)))


def test_the_first_batch_of_a_trial_does_not_count():
    times = SearchTimes(2)
    choices(times, 2 * N_OF_TRIAL, lambda number, n: 100.0 if n % N_OF_TRIAL == 0 else 1.0 + number)
    assert times.medians() == [1.0, 2.0]


def test_one_large_batch_is_a_trial():
    chosen = choices(SearchTimes(2), 6, lambda number, _: 2.0 - number, ENOUGH_TOKENS)
    assert chosen == [0, 1, 1, 1, 1, 1]


def test_who_becomes_slower_is_replaced():
    times = SearchTimes(2)
    choices(times, 50, lambda number, _: 1.0 + number)
    later = choices(times, 20, lambda number, _: 3.0 - number)
    assert later[N_REMEMBERED // 2 + 1 :] == [1] * (20 - N_REMEMBERED // 2 - 1)


def test_batches_without_tokens_say_nothing():
    times = SearchTimes(1)
    times.learn(times.choose(), 1.0, 0)
    times.learn(times.choose(), 1.0, 0)
    assert times.medians() == [math.inf] and times.fastest == 0


def test_other_numbers_of_rows_are_known_apart():
    known = SearchExperience(2)
    assert known.of_rows(1) is known.of_rows(1) is not known.of_rows(2)
    assert known.of_rows(17) is known.of_rows(31) is not known.of_rows(32)
