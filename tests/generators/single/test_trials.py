"""When to ask for proposals of which nobody knows whether they pay."""

import pytest

from fairseq_fastdec.generators.single.trials import (
    LEAST_REST,
    LOST_BY_ROOT,
    MOST_LOST,
    WARM_UP,
    SourceTrial,
)


def asked(trial, n_invocations, lost):
    """The invocations, of so many, for which the source was asked, which lose ``lost(n)``."""
    numbers = [n for n in range(1, 1 + n_invocations) if trial.is_on(n) and ask(trial, n, lost)]
    return numbers


def ask(trial, n, lost):
    trial.learn(n, lost(n))
    return True


def test_what_pays_is_always_asked():
    assert asked(SourceTrial(17), 5000, lambda n: -0.1) == list(range(17, 5001))


@pytest.mark.parametrize("each", [0.2, 1.0, 5.0])
def test_what_does_not_pay_is_asked_ever_more_rarely(each):
    trial, n_invocations = SourceTrial(17), 100_000
    numbers = asked(trial, n_invocations, lambda n: each)
    for most in (4000, n_invocations):
        lost = each * sum(n <= most for n in numbers)
        one_trial = MOST_LOST + (WARM_UP + 1) * each
        assert lost <= max(one_trial, LOST_BY_ROOT * most**0.5 + 1)
    assert numbers[-1] > n_invocations / 10
    rests = [later - n for n, later in zip(numbers, numbers[1:]) if later > n + 1]
    assert all(rest > LEAST_REST for rest in rests) and rests == sorted(rests)


def test_slow_answers_after_a_rest_do_not_decide():
    trial = SourceTrial(1)
    assert asked(trial, 500, lambda n: 20.0 if n <= WARM_UP else -0.1) == list(range(1, 501))
    assert trial.is_warm


def test_what_has_paid_may_cease_to():
    trial = SourceTrial(1)
    numbers = asked(trial, 2000, lambda n: -1.0 if n <= 1000 else 1.0)
    assert numbers == list(range(1, 1001 + 2 * int(MOST_LOST)))
    assert not trial.is_warm
