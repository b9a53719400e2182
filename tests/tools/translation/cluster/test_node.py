"""A machine gets files, starts workers, translates chunks, and leaves nothing behind."""

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from fairseq_fastdec.tools.command_line import to_config, version
from fairseq_fastdec.tools.translation.arguments import parse_args
from fairseq_fastdec.tools.translation.chunks import Chunk
from fairseq_fastdec.tools.translation.cluster import node as node_module
from fairseq_fastdec.tools.translation.cluster.baggage import baggage_of, pieces_of
from fairseq_fastdec.tools.translation.cluster.node import Job, Machine, Started, serve
from fairseq_fastdec.tools.translation.output_lines import OutputRules
from fairseq_fastdec.tools.translation.pool import Pool, WorkersDie
from fairseq_fastdec.tools.translation.worker import Done, Failed, Place, Progress
from tests.support.capitals import Capitals


@pytest.fixture
def job(corpus, baseline):
    given = [corpus, "--path", baseline, "--input", "x", "--output", "y", "--cpu"]
    given += ["--decoding", "greedy", "--max-len-b", 12]
    cfg = to_config(parse_args([str(argument) for argument in given]))
    return Job(cfg, OutputRules(), baggage_of(cfg), 1, 1, version())


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def machine():
    machine = Machine(fetch=lambda piece: piece)
    with contextlib.closing(machine):
        yield machine


def files_of(job):
    return {place: list(pieces_of(file)) for place, file in job.baggage.files.items()}


def finished(machine, chunks):
    """The messages that end chunks, by number."""
    found, report = {}, machine.exchange(chunks)
    while len(found) < len(chunks):
        found.update({n: m for n, m in report if not isinstance(m, Progress)})
        report = machine.exchange([])
    return found


def test_a_machine_from_its_files_to_its_end(machine, job, temporary):
    assert machine.start(job, files_of(job)) == Started(1)
    assert finished(machine, [Chunk(7, 0, b"a b c\nc\n")])[7] == Done(
        (b"c b a\nc\n", {"translated": 2})
    )
    (process,) = multiprocessing.active_children()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises((EOFError, OSError)):
        for _ in range(3):
            machine.exchange([])
    machine.close()
    assert list(temporary.iterdir()) == []


def test_another_version_takes_no_part(machine, job):
    answer = machine.start(job._replace(version="0.0"), {})
    assert answer == Failed(
        f"has fairseq_fastdec {version()}, and the command 0.0; install the same"
    )


def test_a_full_disk_is_told(machine, job, temporary):
    answer = machine.start(job, {"data/dict.en.txt": [b""], "data": [b"no directory"]})
    assert isinstance(answer, Failed) and "Is a directory" in answer.message


def test_models_that_cannot_be_loaded(job):
    here, there = multiprocessing.Pipe()
    job.cfg.common_eval.path = "nowhere.pt"
    serve(there, job)
    assert "nowhere.pt" in here.recv().message


@pytest.fixture
def served(job, tmp_path, monkeypatch):
    """A function that serves with workers that write in capitals; it returns the connection."""
    threads, connections = [], []

    def start(n_workers=2):
        # Workers that were forked afterwards would keep the connection open.
        pool = Pool([Place()] * n_workers, lambda: Capitals(tmp_path), None, forks=True)
        here, there = multiprocessing.Pipe()
        monkeypatch.setattr(node_module, "start_workers", lambda *_: pool)
        threads.append(threading.Thread(target=serve, args=(there, job), daemon=True))
        connections.append(here)
        threads[-1].start()
        assert here.recv() == Started(n_workers)
        return here

    yield start
    for connection, thread in zip(connections, threads):
        connection.close()
        thread.join(30)
        assert not thread.is_alive()


def ask(connection, *chunks):
    connection.send(list(chunks))
    return connection.recv()


def test_a_report_comes_when_a_chunk_is_done(served):
    connection = served()
    report = ask(connection, Chunk(0, 0, b"a\nb\n"), Chunk(1, 2, b"c\n"))
    while len([m for _, m in report if isinstance(m, Done)]) < 2:
        report += ask(connection)
    lines = {number: sum(m.n_lines for n, m in report if n == number and isinstance(m, Progress))
             for number in (0, 1)}  # fmt: skip
    assert lines == {0: 2, 1: 1}


def test_a_report_comes_after_a_while(served, monkeypatch):
    monkeypatch.setattr(node_module, "BETWEEN_REPORTS", 0.5)
    connection, started = served(1), time.monotonic()
    report = ask(connection, Chunk(0, 0, b"wait\n"))
    assert 0.4 < time.monotonic() - started < 20
    assert report in ([(0, Progress(1))], [])


def test_workers_that_die_end_the_machine(served):
    connection = served(1)
    told = []
    while not any(isinstance(message, WorkersDie) for _, message in told):
        told += ask(connection, Chunk(0, 0, b"die\n"))
    assert "5 workers ended over them (killed by SIGKILL)" in str(told[-1][1])


def test_files_of_machines_that_were_killed_are_removed(temporary):
    old = time.time() - 1000
    for name in ("fastdec-node-left", "fastdec-node-new", "others"):
        (temporary / name).mkdir()
        (temporary / name / "file").write_text("x")
    for name in ("fastdec-node-left", "others"):
        os.utime(temporary / name, (old, old))
    with node_module._own_directory() as own:
        assert {path.name for path in temporary.iterdir()} == {
            "fastdec-node-new", "others", own.name,
        }  # fmt: skip
        os.utime(own, (old, old))
        with node_module._own_directory():
            assert Path(own).exists(), "its process is there"
    assert not own.exists()
