"""Processes of a team begin together and share the work, and what the first has in memory."""

import os

import pytest

from benchmarks.compare import processes
from benchmarks.compare.processes import begin_team, in_team, new_team

N = 3
# What a process has been given before it starts the others, and what it began with.
held, began = None, None


@pytest.fixture(scope="module", params=["fork", "spawn"])
def team(request):
    with new_team(N) as first:
        if request.param == "spawn":
            first.submit(forget_how_to_fork).result()
        first.submit(hold, "kept").result()
        first.submit(begin_team, N - 1, begin, request.param).result()
        yield request.param, first


def forget_how_to_fork():
    del os.fork


def hold(value):
    global held
    held = value


def begin(value):
    global began
    began = value


def state():
    return os.getpid(), held, began


def test_forked_processes_have_what_the_first_holds(team):
    method, first = team
    (number, *_), *others = first.submit(in_team, state).result()
    assert len({number, *(other[0] for other in others)}) == N
    inherited = "kept" if method == "fork" else None
    assert [other[1:] for other in others] == [(inherited, method)] * (N - 1)


def test_an_error_of_any_process_arrives(team):
    _, first = team
    with pytest.raises(KeyError, match="late"):
        first.submit(in_team, fail_where_begun).result()
    assert len(first.submit(in_team, state).result()) == N


def fail_where_begun():
    if began is not None:
        raise KeyError("late")


def test_a_team_shares_the_work_and_begins_together(team):
    _, first = team
    for n in (40, 1, 7):
        shares = first.submit(in_team, taken, n).result()
        assert sorted(sum(shares, [])) == list(range(n))
        assert all(share == sorted(share, reverse=True) for share in shares)
        assert n < 40 or min(map(len, shares)) >= 5


def taken(n):
    """In a process of a team: its numbers. It waits until the others have as many."""
    numbers = []
    for number in processes.turns.take(n):
        numbers.append(number)
        if number >= n % N:
            processes.turns._line.wait(processes.PATIENCE)
    return numbers


def test_who_is_alone_has_no_turns():
    with new_team(1) as alone:
        assert alone.submit(has_turns).result() is False
        assert alone.submit(in_team, has_turns).result() == [False]


def has_turns():
    return processes.turns is not None
