"""Processes of a team begin together and share the work."""

import time
from contextlib import ExitStack

from fairseq_fastdec.tools.benchmark import processes
from fairseq_fastdec.tools.benchmark.processes import new_team


def taken(n):
    """In a process of a team: its numbers. It waits a little, for the other to have its turn."""
    numbers = []
    for number in processes.turns.take(n):
        numbers.append(number)
        time.sleep(0.02)
    return numbers


def test_a_team_shares_the_work_and_begins_together():
    with ExitStack() as stack:
        team = [stack.enter_context(process) for process in new_team(2)]
        for n in (40, 1, 7):
            shares = [future.result() for future in [own.submit(taken, n) for own in team]]
            assert sorted(sum(shares, [])) == list(range(n))
            assert all(share == sorted(share, reverse=True) for share in shares)
            assert n < 40 or min(map(len, shares)) >= 5
    (alone,) = new_team(1)
    with alone:
        assert alone.submit(has_turns).result() is False


def has_turns():
    return processes.turns is not None
