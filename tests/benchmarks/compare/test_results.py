"""From rounds to rows."""

import pytest

from benchmarks.compare.results import summarize
from benchmarks.compare.scoring import Scorer


def test_rows(contest):
    slow, fast, wide, wide_2, batched = summarize(contest, "slow", Scorer())
    assert slow.bleu == pytest.approx(100) and 0 < fast.bleu < 100
    assert (slow.time_ratio, slow.time_ratio_range, slow.speed_up) == (1, (1, 1), 1)
    assert (fast.time_ratio, fast.time_ratio_range, fast.speed_up) == (0.5, (0.25, 1), 2)
    assert (slow.sentences_per_second, slow.tokens_per_second) == (0.5, 2.5)
    assert (fast.invocations, fast.tokens_per_invocation) == (5, 1.25)
    assert slow.invocations is slow.tokens_per_invocation is None
    assert (fast.identical, fast.identical_to) == (1, "slow")
    assert (wide_2.identical, wide_2.identical_to, wide.identical_to) == (2, "wide", "wide")
    assert (batched.batch_size, batched.time_ratio, batched.memory) == (8, 1, 190)


def test_the_fastest_division_of_a_method_counts(contest):
    slow, fast, wide, *_ = summarize(contest, "slow", Scorer())
    assert (slow.division, slow.memory) == ("1 x 2", 150)  # by the median, not by the last round
    assert (fast.division, fast.memory) == ("2 x 1", 160)
    tried = [(trial.division, trial.seconds) for trial in slow.trials]
    assert tried == [("1 x 2", 4.0), ("2 x 1", 4.5)]
    assert [trial.latency_p50 for trial in slow.trials] == pytest.approx([300, 800])
    assert [(trial.division, trial.seconds) for trial in wide.trials] == [("1 x 2", 8.0)]


def test_latency_percentiles_are_of_the_sentences_medians(contest):
    slow, fast, *_ = summarize(contest, "slow", Scorer())
    assert slow.latency_p50 == pytest.approx(300)
    assert slow.latency_p95 == pytest.approx(480)
    assert fast.latency_p50 is fast.latency_p95 is None
    rounds_ = contest.entries[0].rounds
    rounds_[0].latencies[1] = 5.0  # an outlier of one round
    assert summarize(contest, "slow", Scorer())[0].latency_p50 == pytest.approx(300)


def test_some_other_reference(contest):
    contest.entries.pop()
    slow = summarize(contest, "wide", Scorer())[0]
    assert (slow.time_ratio, slow.time_ratio_range) == (0.5, (0.5, 0.5))
