"""Whose turn it is, and what happens when a method fails: with methods that only say so."""

import os
from contextlib import ExitStack

import pytest
from tqdm import tqdm

from benchmarks.compare import contest as module
from benchmarks.compare import worker
from benchmarks.compare.contest import Contender, Contest, MethodError
from benchmarks.compare.measurement import Round, peak_memory
from benchmarks.compare.methods import CTRANSLATE2, Division, Method, Settings
from benchmarks.compare.processes import begin_team
from fairseq_fastdec.tools.corpus import DecodedText

SETTINGS = Settings(("data",), "cpu", "fp32", 1)
COMPLETE = {0: DecodedText("a", "a"), 1: DecodedText("b", "b")}


@pytest.fixture()
def compete(monkeypatch):
    """A function that runs a contest of scripted methods; it returns the contest and the calls."""

    def run(
        names,
        failures=(),
        incomplete=(),
        reference="a",
        batch_sizes=(1,),
        n_rounds=2,
        settings=SETTINGS,
    ):
        calls = []

        class Scripted:
            def __init__(self, method, division, stack):
                self.method, self.division = method, division
                self.beam_width, self.memory_before = 1, 10.0

            def load(self, settings, shared):
                self.call(worker.load, None)

            def call_all(self, function, *args):
                return [self.call(function, *args) for _ in range(self.division.workers)]

            def call(self, function, *args):
                name = self.method.name
                if settings.threads > 1:
                    name += f" {self.division}"
                if function is peak_memory:
                    return 20.0
                calls.append((name, function.__name__, *args[-1:]))
                if (name, function.__name__, *args[-1:]) in failures:
                    raise MethodError("no luck")
                if function is worker.references:
                    return {0: "a", 1: "b"}
                if function is worker.flops:
                    return 7
                left = dict(list(COMPLETE.items())[: 1 if name in incomplete else 2])
                return Round(1.0, translations=left)

        monkeypatch.setattr(module, "Contender", Scripted)
        methods = [Method(name, ()) for name in names]
        with tqdm(disable=True) as bar:
            contest = Contest(methods, reference, settings, bar)
            contest.run(batch_sizes, n_rounds)
        return contest, calls

    return run


def test_rounds_alternate(compete):
    contest, calls = compete("abc", batch_sizes=(1, 4))
    decoded = [(name, size) for name, what, *size in calls if what == "decode"]
    assert decoded == [(name, [size]) for size in (1, 4) for name in "abcabc"]
    warmed = [name for name, what, *_ in calls if what == "warm_up"]
    assert warmed == list("abcabc")
    assert sorted(what for _, what, *_ in calls[:4]) == ["load", "load", "load", "references"]
    shown = [(e.method.name, e.batch_size, len(e.rounds), e.memory) for e in contest.entries]
    assert shown == [(name, size, 2, 20.0) for size in (1, 4) for name in "abc"]


@pytest.mark.parametrize(
    "failure", [("b", "load", None), ("b", "warm_up", 1), ("b", "decode", 1)], ids=lambda f: f[1]
)
def test_a_method_that_fails_is_left_out(compete, failure):
    contest, calls = compete("abc", failures=[failure], batch_sizes=(1, 4))
    assert contest.left_out == {"b": "no luck"}
    assert [entry.method.name for entry in contest.entries] == ["a", "c", "a", "c"]
    assert not any(call[0] == "b" for call in calls[calls.index(failure) + 1 :])


def test_a_failure_at_a_later_batch_size_keeps_what_was_measured(compete):
    contest, _ = compete("ab", failures=[("b", "decode", 4)], batch_sizes=(1, 4))
    assert [(e.method.name, e.batch_size) for e in contest.entries] == [
        ("a", 1), ("b", 1), ("a", 4),
    ]  # fmt: skip


def test_a_method_that_loses_sentences_is_left_out(compete):
    contest, _ = compete("ab", incomplete="b")
    assert contest.left_out == {"b": "1 of 2 sentences were not decoded"}


def test_nothing_can_be_compared_without_the_reference(compete):
    with pytest.raises(MethodError, match="'a', the reference for the others: no luck"):
        compete("ab", failures=[("a", "decode", 1)])


def test_operations_are_counted_once_a_method_and_batch_size(compete):
    counting = Settings(("data",), "cpu", "fp32", 2, counts_flops=True)
    contest, calls = compete("ab", settings=counting, batch_sizes=(1, 4))
    counted = [(name, *size) for name, what, *size in calls if what == "flops"]
    assert counted == [(f"{name} 1 x 2", size) for size in (1, 4) for name in "ab"]
    assert {entry.flops for entry in contest.entries} == {7}
    without, calls = compete("ab")
    assert {entry.flops for entry in without.entries} == {None}
    assert "flops" not in [what for _, what, *_ in calls]


TWO = Settings(("data",), "cpu", "fp32", 2)


def test_both_divisions_of_the_threads_take_turns(compete):
    contest, calls = compete("ab", settings=TWO, n_rounds=2)
    decoded = [name for name, what, *_ in calls if what == "decode"]
    # Two workers decode at once.
    assert decoded == ["a 1 x 2", "a 2 x 1", "a 2 x 1", "b 1 x 2", "b 2 x 1", "b 2 x 1"] * 2
    shown = [(e.method.name, str(e.division), len(e.rounds), e.memory) for e in contest.entries]
    assert shown == [
        ("a", "1 x 2", 2, 20.0), ("a", "2 x 1", 2, 40.0),
        ("b", "1 x 2", 2, 20.0), ("b", "2 x 1", 2, 40.0),
    ]  # fmt: skip


def test_one_division_that_fails_leaves_the_other(compete):
    contest, _ = compete("ab", settings=TWO, failures=[("a 2 x 1", "load", None)])
    assert contest.left_out == {"a (2 x 1)": "no luck"}
    assert [str(e.division) for e in contest.entries] == ["1 x 2", "1 x 2", "2 x 1"]
    both = [("b 1 x 2", "load", None), ("b 2 x 1", "decode", 1)]
    assert compete("ab", settings=TWO, failures=both)[0].left_out == {"b": "no luck"}
    with pytest.raises(MethodError, match="'a', the reference for the others"):
        compete("ab", settings=TWO, failures=[(f"a {d}", "decode", 1) for d in ("1 x 2", "2 x 1")])


@pytest.mark.parametrize("engine, n_processes", [("fairseq", 3), (CTRANSLATE2, 1)])
def test_workers_are_processes_but_for_ctranslate2(engine, n_processes):
    with ExitStack() as stack:
        made = Contender(Method("x", (), engine), Division(3, 1), stack)
        made.call(begin_team, n_processes - 1, os.getpid)
        assert len(set(made.call_all(os.getpid))) == n_processes


@pytest.fixture()
def contender():
    """A contender in a real process, of which nothing is loaded."""
    with ExitStack() as stack:
        yield Contender(Method("x", ()), Division(1, 1), stack)


def test_errors_come_from_the_process(contender):
    assert contender.call(os.getpid) != os.getpid()
    with pytest.raises(MethodError, match="^invalid literal for int"):
        contender.call(int, "x")
    with pytest.raises(MethodError, match="^ZeroDivisionError: "):
        contender.call(divmod, 1, 0)
    with pytest.raises(MethodError, match="a process has died"):
        contender.call(os._exit, 1)


def test_the_memory_is_the_process_own(contender):
    # More than what torch and fairseq take: torch's CUDA build alone makes 640 MiB of it.
    ballast = bytearray(1200 * 2**20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    own, other = peak_memory(), contender.call(peak_memory)
    del ballast
    assert own > 1200 > other > 20


def test_memory_that_processes_share_counts_once(contender):
    contender.call(hold, 400)
    contender.call(begin_team, 2, os.getpid)
    first, second, third = contender.call_all(peak_memory)
    assert 400 < first + second + third < 3 * 400
    contender.call_all(hold, 400)
    assert sum(contender.call_all(peak_memory)) > 3 * 400


def hold(n_mib):
    """In another process: take memory, and write to all of it."""
    global held
    held = bytearray(n_mib * 2**20)
    held[::4096] = b"x" * len(held[::4096])
