"""A worker by itself: its messages, and a coordinator that is gone."""

import multiprocessing
import os
import time

import pytest

from fairseq_fastdec.corpora import worker
from fairseq_fastdec.corpora.chunks import Chunk, ChunkStore
from fairseq_fastdec.corpora.worker import Place, serve
from tests.support.capitals import Capitals

FORK = multiprocessing.get_context("fork")


class Slow(Capitals):
    def translate(self, chunk, progress):
        (self.directory / "begun").write_text("")
        time.sleep(1)
        return super().translate(chunk, progress)


def start(directory, translator=Capitals, place=Place()):
    here, there = FORK.Pipe()
    store = ChunkStore(directory)
    process = FORK.Process(
        target=serve, args=(there, [here], lambda _: translator(directory), place, store)
    )
    process.start()
    there.close()
    return here, process


def test_a_worker_ends_when_nobody_has_work(tmp_path):
    connection, process = start(tmp_path)
    assert connection.recv() == 0
    connection.send(Chunk(0, 0, b"a\n"))
    assert connection.recv() is None
    connection.close()
    process.join(120)
    assert process.exitcode == 0


def test_a_chunk_is_finished_though_the_coordinator_is_gone(tmp_path):
    connection, process = start(tmp_path, Slow)
    connection.send(Chunk(0, 0, b"a\n"))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    connection.close()
    process.join(120)
    assert process.exitcode == 0
    assert ChunkStore(tmp_path).read(0).content == b"A\n"


@pytest.mark.parametrize("seconds, told", [(0, [1, 1, 1]), (60, [])], ids=["often", "seldom"])
def test_progress_is_told_now_and_then(tmp_path, monkeypatch, seconds, told):
    monkeypatch.setattr(worker, "BETWEEN_REPORTS", seconds)
    connection, process = start(tmp_path)
    connection.send(Chunk(0, 0, b"a\nb\nc\n"))
    messages = [connection.recv() for _ in range(len(told) + 2)]
    connection.close()
    process.join(120)
    assert messages == [0, *told, None]


class Placed(Capitals):
    def use_threads(self, n_threads):
        self.n_threads = n_threads

    def translate(self, chunk, progress):
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        (self.directory / "place").write_text(f"{self.n_threads} {cores}")
        return super().translate(chunk, progress)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no pinning here: run it on Linux")
def test_a_worker_settles_in_its_place(tmp_path):
    core = max(os.sched_getaffinity(0))
    connection, process = start(tmp_path, Placed, Place(3, [core]))
    connection.send(Chunk(0, 0, b"a\n"))
    connection.close()
    process.join(120)
    assert (tmp_path / "place").read_text() == f"3 [{core}]"
