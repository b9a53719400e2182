"""The rule that decides from measured times whether a step has proposals."""

import pytest
import torch

from fairseq_fastdec.decoding.methods import proposal_times
from fairseq_fastdec.decoding.methods.proposal_times import (
    COLD,
    FIRST_REST,
    FIRST_TRIALS,
    LONGEST_TRIAL,
    ProposalTimes,
    TimesOfSize,
)

TRIAL = 4
REST = FIRST_REST * TRIAL
FIRST = 2 * FIRST_TRIALS * TRIAL  # the steps of the first trials


def choices(times, n, seconds, tokens):
    """Whether each of n steps has proposals; ``seconds`` and ``tokens`` are for either way."""
    chosen = []
    for _ in range(n):
        proposes = times.proposes()
        times.learn(seconds[proposes], tokens[proposes])
        chosen.append(proposes)
    return chosen


@pytest.mark.parametrize("faster", [False, True])
def test_trials_become_rare(faster):
    times = TimesOfSize(TRIAL)
    chosen = choices(times, 6 * REST, (1.0, 2.5 if faster else 3.5), (1, 3))
    slower = not faster
    assert chosen[:FIRST] == ([True] * TRIAL + [False] * TRIAL) * FIRST_TRIALS
    assert chosen[FIRST : FIRST + REST] == [faster] * REST
    second = FIRST + REST
    assert chosen[second : second + TRIAL] == [slower] * TRIAL
    assert chosen[second + TRIAL : second + TRIAL + 4 * REST] == [faster] * 4 * REST


def test_what_has_become_slower_is_given_up():
    times = TimesOfSize(TRIAL)
    assert choices(times, FIRST + REST, (1.0, 2.0), (1, 3))[-1]
    later = choices(times, 20 * REST, (1.0, 2.0), (1, 1))
    assert not any(later[-REST:])


def test_interruptions_count_little():
    """The first measurement is wrong, and the others correct it."""
    times = TimesOfSize(TRIAL)
    times.proposes()
    times.learn(1e6, 3)
    chosen = choices(times, FIRST - 1 + REST, (1.0, 2.0), (1, 3))
    assert all(chosen[FIRST - 1 :])


def test_wrong_measurements_are_corrected_at_the_next_trial():
    """All first measurements of the faster way are wrong."""
    times = TimesOfSize(TRIAL)
    for _ in range(FIRST):
        proposes = times.proposes()
        times.learn(9.0 if proposes else 1.0, 3 if proposes else 1)
    chosen = choices(times, 2 * REST, (1.0, 2.0), (1, 3))
    assert not any(chosen[:REST]) and all(chosen[REST:])


@pytest.fixture
def clock(monkeypatch):
    """Sets the time."""
    now = [0.0]
    monkeypatch.setattr(proposal_times, "perf_counter", lambda: now[0])
    return now


def test_the_first_steps_do_not_count(clock):
    times = ProposalTimes(is_used=True)
    proposed = []
    for step in range(1000):
        proposed.append(times.propose(1))
        clock[0] += 1e6 if step < COLD else 2.0 if proposed[-1] else 1.0
        times.learn(torch.tensor([3 if proposed[-1] else 1]))
    assert proposed[:COLD] == [False] * (COLD // 2) + [True] * (COLD // 2)
    assert sum(proposed[COLD:]) == 1000 - COLD - FIRST_TRIALS * LONGEST_TRIAL


def test_times_are_kept_for_each_size(clock):
    """Proposals save time for one sentence and cost time for eight."""
    times = ProposalTimes(is_used=True)
    proposed = {1: 0, 8: 0}
    for _ in range(4000):
        for n_rows in proposed:
            proposes = times.propose(n_rows)
            proposed[n_rows] += proposes
            clock[0] += n_rows * 3 if n_rows == 8 and proposes else n_rows
            times.learn(torch.full((n_rows,), 1 + proposes))
    assert proposed[1] > 3500 and proposed[8] < 500


def test_without_it_all_steps_propose():
    times = ProposalTimes(is_used=False)
    for _ in range(1000):
        assert times.propose(1)
        times.learn(torch.zeros(1))
