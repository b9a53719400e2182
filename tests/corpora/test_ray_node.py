"""A machine receives files, starts workers, translates chunks, and leaves nothing behind."""

import contextlib
import multiprocessing
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_fastdec.corpora import ray_node
from fairseq_fastdec.corpora.arguments import parse_args
from fairseq_fastdec.corpora.chunks import Chunk
from fairseq_fastdec.corpora.output_lines import OutputRules
from fairseq_fastdec.corpora.pool import LocalPool, WorkersDie
from fairseq_fastdec.corpora.ray_node import Machine, NodeJob, serve
from fairseq_fastdec.corpora.ray_pool import pieces_of
from fairseq_fastdec.corpora.worker import Place
from fairseq_fastdec.translating.command_line import version
from tests.support.capitals import Capitals


@pytest.fixture
def portable(corpus, baseline):
    """A model for another machine, and its files."""
    given = [baseline, "--data", corpus, "--input", "x", "--output", "y", "--cpu"]
    given += ["--decoding", "greedy", "--max-len-b", 12]
    args = parse_args([str(argument) for argument in given])
    model, files = args.model.portable()
    return model, {place: list(pieces_of(file)) for place, file in files.items()}


@pytest.fixture
def job(portable):
    return NodeJob(portable[0], OutputRules(), 2, 1, version())


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def machine(monkeypatch):
    """Its process is forked from one that has imported fairseq, if the system can fork."""
    if hasattr(os, "fork"):
        context = multiprocessing.get_context("forkserver")
        # It creates files, which must not be in the directory of `temporary`.
        forkserver.ensure_running()
        monkeypatch.setattr(ray_node.multiprocessing, "get_context", lambda method: context)
    machine = Machine(fetch=lambda piece: piece)
    with contextlib.closing(machine):
        yield machine


def test_a_machine_from_its_files_to_its_end(machine, job, portable, temporary):
    assert machine.start(job, portable[1]) == 2
    chunks = [Chunk(7 + n, 0, b"a b c\nc\n" * (n + 1)) for n in range(5)]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(machine.translate, chunks))
    assert found == [(b"c b a\nc\n" * n, {"translated": 2 * n}) for n in range(1, 6)]
    assert len(multiprocessing.active_children()) == 1
    machine.close()
    assert list(temporary.iterdir()) == [] and not multiprocessing.active_children()


def test_a_machine_whose_process_is_killed_ends(machine, job, portable, temporary, monkeypatch):
    """Ray notices the end of the actor, and the command sends the chunks to other machines."""
    ended = threading.Event()
    monkeypatch.setattr(ray_node.os, "_exit", lambda code: ended.set())
    machine.start(job, portable[1])
    (process,) = multiprocessing.active_children()
    # Its worker keeps the connection open while it translates.
    long = Chunk(0, 0, b"a b c d e f g h\n" * 40_000)
    threading.Thread(target=machine.translate, args=(long,), daemon=True).start()
    time.sleep(0.5)
    process.kill()
    assert ended.wait(60) and list(temporary.iterdir()) == []


def test_another_version_takes_no_part(machine, job):
    assert machine.start(job._replace(version="0.0"), {}) == (
        f"has fairseq_fastdec {version()}, but the command has 0.0; install the same version"
    )


def test_a_full_disk_is_the_reason(machine, job, temporary):
    answer = machine.start(job, {"data/dict.en.txt": [b""], "data": [b"no directory"]})
    assert "Is a directory" in answer


def test_models_that_cannot_be_loaded(machine, job, portable, temporary):
    files = {place: pieces for place, pieces in portable[1].items() if place.startswith("data")}
    assert "model0" in machine.start(job, files)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A function that serves with workers that write in capitals; it returns the connection."""
    threads, connections = [], []

    def start(n_workers=2):
        # Workers that were forked afterwards would keep the connection open.
        places = [Place()] * n_workers
        pool = LocalPool(places, lambda _: Capitals(tmp_path), None, lambda n: None, forks=True)
        here, there = multiprocessing.Pipe()
        monkeypatch.setattr(ray_node, "start_workers", lambda *_: pool)
        monkeypatch.setattr(ray_node.os, "chdir", lambda _: None)
        model = SimpleNamespace(n_gpus=lambda: 0, translator=print)
        job = NodeJob(model, OutputRules(), n_workers, 1, version())
        threads.append(threading.Thread(target=serve, args=(there, job, tmp_path), daemon=True))
        connections.append(here)
        threads[-1].start()
        assert here.recv() == n_workers
        return here

    yield start
    for connection, thread in zip(connections, threads):
        connection.send(None)
        thread.join(120)
        assert not thread.is_alive()


def test_chunks_come_back_with_their_numbers(served):
    connection = served()
    for chunk in (Chunk(0, 0, b"a\nb\n"), Chunk(1, 2, b"c\n"), Chunk(2, 3, b"d\n")):
        connection.send(chunk)
    found = dict(connection.recv() for _ in range(3))
    assert {number: translated.content for number, translated in found.items()} == {
        0: b"A\nB\n", 1: b"C\n", 2: b"D\n",
    }  # fmt: skip


def test_a_worker_that_dies_is_replaced_on_its_machine(served):
    connection = served(1)
    connection.send(Chunk(0, 0, b"die once\n"))
    assert connection.recv() == (0, (b"DIE ONCE\n", {"translated": 1}))


def test_lines_over_which_workers_die_are_named(served):
    connection = served(1)
    connection.send(Chunk(0, 0, b"die\n"))
    number, error = connection.recv()
    assert number == 0 and isinstance(error, WorkersDie)
    assert "5 workers ended while translating them (killed by SIGKILL)" in str(error)


def test_files_of_machines_that_were_killed_are_removed(temporary):
    old = time.time() - 1000
    for name in ("fastdec-node-left", "fastdec-node-new", "others"):
        (temporary / name).mkdir()
        (temporary / name / "file").write_text("x")
    for name in ("fastdec-node-left", "others"):
        os.utime(temporary / name, (old, old))
    with ray_node._own_directory() as own:
        assert {path.name for path in temporary.iterdir()} == {
            "fastdec-node-new", "others", own.name,
        }  # fmt: skip
        os.utime(own, (old, old))
        with ray_node._own_directory():
            assert Path(own).exists(), "its process is there"
    assert not own.exists()
