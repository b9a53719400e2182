"""Stages of examples, and trainings side by side."""

import os
import re
import sys
import threading
import time
from functools import partial

import pytest

from examples.common import commands
from tests.support.at_once import at_once

# Creates a file with the number of threads, and waits for another file.
MEET = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(os.environ["OMP_NUM_THREADS"])
until = time.monotonic() + 60
while not os.path.exists(sys.argv[2]) and time.monotonic() < until:
    time.sleep(0.01)
sys.exit(not os.path.exists(sys.argv[2]))
"""


def program(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def test_a_stage_runs_once(tmp_path, monkeypatch):
    """Threads that need it at the same time wait for the first."""
    running, ran = threading.Semaphore(), []

    def run(command):
        assert running.acquire(blocking=False)
        time.sleep(0.05)
        ran.append(command)
        running.release()

    monkeypatch.setattr(commands, "run", run)
    stage = partial(commands.stage, tmp_path, ["train"], ["average"])
    at_once(stage, stage, stage)
    assert ran == [["train"], ["average"]] and commands.finished(tmp_path)


def test_a_stage_that_fails_is_not_finished(tmp_path):
    for _ in range(2):
        with pytest.raises(SystemExit, match="failed"):
            commands.stage(tmp_path, program("raise SystemExit(1)"))
    assert not commands.finished(tmp_path)


def test_trainings_run_on_all_cores_with_one_thread_each(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "usable_cores", lambda: [0, 1])
    monkeypatch.setattr(commands, "n_usable", len)
    monkeypatch.setenv(commands.THREADS, "7")
    files = [tmp_path / "a", tmp_path / "b"]
    calls = [partial(commands.run, program(MEET, *ab)) for ab in (files, files[::-1])]
    memory = commands.side_by_side(calls)
    assert len(memory) == 2 and min(memory) > 0
    assert [path.read_text() for path in files] == ["1", "1"]
    assert os.environ[commands.THREADS] == "7"


def test_no_training_begins_after_one_has_failed(monkeypatch):
    monkeypatch.delenv(commands.THREADS, raising=False)
    monkeypatch.setattr(commands, "usable_cores", lambda: [0])
    began = []

    def train(number):
        began.append(number)
        time.sleep(0.02)
        if number == 1:
            sys.exit("failed")

    with pytest.raises(SystemExit, match="failed"):
        commands.side_by_side([partial(train, number) for number in range(40)])
    assert 1 in began and 39 not in began
    assert commands.THREADS not in os.environ


def test_results_are_from_a_commit_unless_code_has_changed(tmp_path, monkeypatch):
    """Commands write figures one by one, which changes nothing that the next is measured with."""
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    assert commands.commit() == ""
    for name in ("README.md", "benchmarks/speed.json", "code.py"):
        write_text(tmp_path / name, "before")
    user = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*user, "commit", "-q", "-m", "First"]):
        assert commands.git(*words).returncode == 0
    revision = commands.commit()
    assert re.fullmatch("[0-9a-f]+", revision)
    for name in ("README.md", "benchmarks/speed.json"):
        write_text(tmp_path / name, "after")
    assert commands.commit() == revision
    write_text(tmp_path / "code.py", "after")
    assert commands.commit() == f"{revision}-dirty"


def write_text(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
