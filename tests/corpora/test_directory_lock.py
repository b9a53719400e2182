"""One process at a time, or several on parts of their own."""

import json
import multiprocessing
import os
import signal
import socket
import threading
import time

import pytest

from fairseq_fastdec.corpora.directory_lock import locked

FORK = multiprocessing.get_context("fork")


def hold(directory, is_held, index, count):
    with locked(directory, index, count):
        is_held.set()
        time.sleep(600)


@pytest.fixture
def held(tmp_path):
    """A function that has another process lock the directory; it returns the process."""
    processes = []

    def start(index=0, count=1):
        is_held = FORK.Event()
        process = FORK.Process(target=hold, args=(tmp_path, is_held, index, count), daemon=True)
        process.start()
        processes.append(process)
        assert is_held.wait(120)
        return process

    yield start
    for process in processes:
        process.kill()


def test_one_after_the_other(tmp_path):
    for _ in range(2):
        with locked(tmp_path):
            pass


def test_another_process_is_named(tmp_path, held):
    process = held()
    message = f"process {process.pid} on {socket.gethostname()} is using this directory"
    for index, count in ((0, 1), (1, 2)):
        with pytest.raises(ValueError, match=message), locked(tmp_path, index, count):
            pass


def test_parts_go_together_and_not_with_the_whole(tmp_path, held):
    process = held(0, 2)
    with locked(tmp_path, 1, 2):
        pass
    with pytest.raises(ValueError, match=f"process {process.pid} on"), locked(tmp_path, 0, 2):
        pass
    with (
        pytest.raises(ValueError, match="another process is using this directory"),
        locked(tmp_path),
    ):
        pass


def test_whoever_was_killed_holds_nothing(tmp_path, held):
    process = held()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with locked(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["process"] == os.getpid()


def leave_a_worker_behind(directory, is_done):
    with locked(directory):
        FORK.Process(target=is_done.wait).start()
        os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_outlive_their_coordinator_are_waited_for(tmp_path):
    is_done = FORK.Event()
    process = FORK.Process(target=leave_a_worker_behind, args=(tmp_path, is_done))
    process.start()
    process.join()
    threading.Timer(0.5, is_done.set).start()
    with locked(tmp_path):
        assert is_done.is_set()
