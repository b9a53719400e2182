"""Machines of a cluster come, go, fail and translate chunks; Ray itself, with three nodes."""

import functools
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from examples.corpora.ray_cluster import RayCluster
from fairseq_fastdec.corpora import command
from fairseq_fastdec.corpora import ray_pool as pool_module
from fairseq_fastdec.corpora.chunks import Chunk, ChunkStore, chunks_of
from fairseq_fastdec.corpora.coordinator import Coordinator
from fairseq_fastdec.corpora.output_lines import OutputRules
from fairseq_fastdec.corpora.pool import WorkersDie
from fairseq_fastdec.corpora.progress_bar import LineBar
from fairseq_fastdec.corpora.ray_node import NodeJob
from fairseq_fastdec.corpora.ray_pool import (
    NoMachine,
    RayPool,
    pieces_of,
    start_on_cluster,
)
from fairseq_fastdec.corpora.text_files import TextInput
from tests.support import skips
from tests.support.capitals import Capitals
from tests.support.pretended_cluster import PretendedError, PretendedRay

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "fairseq_fastdec", "translate"]
LINES = [f"line {number}" for number in range(40)]
N_LINES = 4000


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(pool_module, "BETWEEN_LOOKS", 0.0)


@pytest.fixture
def ray(tmp_path, monkeypatch):
    ray = PretendedRay(Capitals(tmp_path))
    monkeypatch.setattr(RayPool, "_actor", lambda self, node, *_: ray.actor(node))
    return ray


@pytest.fixture
def start_pool(ray):
    """A function that starts a pool."""

    def start(progress=lambda n: None, n_workers=0, n_threads=1, may_use_gpus=True):
        model = SimpleNamespace(may_use_gpus=may_use_gpus)
        return RayPool(ray, NodeJob(model, None, n_workers, n_threads, "1"), {}, progress)

    return start


@pytest.fixture
def store(tmp_path):
    (tmp_path / "chunks").mkdir()
    return ChunkStore(tmp_path / "chunks")


@pytest.fixture
def translate(start_pool, store, tmp_path):
    """A function that translates lines, two in each chunk, and returns the output."""

    def run(lines):
        (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
        chunks = functools.partial(chunks_of, TextInput([str(tmp_path / "text")]), 2)
        coordinator = Coordinator(chunks, store, start_pool, lambda: LineBar(None, False))
        coordinator.complete(tmp_path / "out")
        return (tmp_path / "out").read_text()

    return run


def capitals(lines):
    return "".join(f"{line}\n" for line in lines).upper()


def test_all_machines_take_part(ray, translate):
    machines = [ray.add(name) for name in "abc"]
    assert translate(LINES) == capitals(LINES)
    assert all(machine.n_finished > 2 for machine in machines)
    assert ray.is_closed


def test_damaged_chunks_are_replaced(ray, translate, store):
    ray.add("a")
    store.path(1).write_bytes(b"nonsense")
    assert translate(LINES) == capitals(LINES)


def test_the_chunks_of_a_lost_machine_are_translated_by_others(ray, translate, caplog):
    ray.add("a", dies_with=2)
    other = ray.add("b")

    def at_wait():
        if ray.released:
            ray.machines.pop("a", None)

    ray.at_wait = at_wait
    assert translate(LINES) == capitals(LINES)
    assert other.n_finished == 20
    assert "a (a) is lost (its plug was pulled); 2 chunks again" in caplog.text


def test_a_machine_that_joins_gets_chunks(ray, translate):
    first = ray.add("a")

    def at_wait():
        if first.n_finished > 5 and "b" not in ray.machines:
            ray.add("b")

    ray.at_wait = at_wait
    assert translate(LINES) == capitals(LINES)
    assert ray.machines["b"].n_finished > 3


def test_all_machines_may_leave_before_others_join(ray, translate):
    first = ray.add("a")

    def at_wait():
        if first.n_finished > 5 and "a" in ray.machines:
            del ray.machines["a"]
            ray.add("b")

    ray.at_wait = at_wait
    assert translate(LINES) == capitals(LINES)


def test_progress_room_and_a_chunk_that_is_lost(ray, start_pool):
    ray.add("a", answer=1)
    counted = []
    with start_pool(counted.append) as pool:
        assert pool.results() == [] and pool.has_room and not pool.is_busy
        chunk = Chunk(0, 0, b"a\nb\n")
        pool.submit(chunk)
        assert not pool.has_room and pool.is_busy
        del ray.machines["a"]
        assert pool.results() == [] and pool.is_busy and not pool.has_room
        ray.add("b", answer=1)
        while pool.is_busy:
            found = pool.results()
        assert found == [(chunk, (b"A\nB\n", {"translated": 2}))]
    assert counted == [2]


def test_machines_that_end_again_and_again(ray, translate):
    ray.add("a", dies_with=1)
    with pytest.raises(WorkersDie, match="lines 1 to 2 of the input: 5 workers .* with a"):
        translate(["a", "b"])
    assert ray.n_started["a"] == 5 and ray.is_closed


def test_a_machine_that_cannot_take_part_is_left_out(ray, translate, caplog):
    ray.add("a", answer="has no disk")
    ray.add("b")
    assert translate(LINES) == capitals(LINES)
    assert "a (a) is not used: has no disk" in caplog.text and ray.n_started["a"] == 1


def test_a_machine_that_never_starts_is_left_out(ray, translate, caplog):
    ray.add("a", answer=PretendedError("no such package"))
    ray.add("b")
    assert translate(LINES) == capitals(LINES)
    assert "a (a) is not used: no such package" in caplog.text and ray.n_started["a"] == 5


def test_no_machine_can_take_part(ray, translate):
    ray.add("a", answer="has no disk")
    with pytest.raises(NoMachine, match=r"--cluster: no machine can be used; a .a.: has no disk"):
        translate(LINES)


def test_a_full_disk(ray, translate, store, monkeypatch):
    ray.add("a")

    def write(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write", write)
    with pytest.raises(OSError, match="No space left on device; fix this and run the same command"):
        translate(LINES)


def test_a_wait_for_a_machine_causes_one_warning(start_pool, monkeypatch, caplog):
    monkeypatch.setattr(pool_module, "TO_WARN", -1.0)
    with start_pool() as pool:
        for _ in range(3):
            assert pool.results() == []
    assert caplog.text.count("the cluster has no machine with resources for a worker") == 1


@pytest.mark.parametrize(
    "resources, given, n_workers",
    [
        ({"CPU": 8.0}, {}, 8),
        ({"CPU": 8.0}, {"n_threads": 3}, 2),
        ({"CPU": 8.0}, {"n_threads": 16}, 1),
        ({"CPU": 8.0}, {"n_workers": 5}, 5),
        ({"CPU": 8.0, "GPU": 2.0}, {}, 2),
        ({"CPU": 8.0, "GPU": 2.0}, {"may_use_gpus": False}, 8),
        ({"memory": 1.0}, {"n_workers": 4}, None),
    ],
)
def test_the_workers_of_a_node(ray, start_pool, resources, given, n_workers):
    machine = ray.add("a", **resources)
    ray.add("gone", answer=None)
    with start_pool(**given) as pool:
        pool.results()
    if n_workers is None:
        assert not ray.n_started
    else:
        assert machine.job.n_workers == n_workers and list(ray.n_started) == ["a"]


class Model:
    may_use_gpus = False

    def __init__(self, file):
        self.file = file

    def portable(self):
        return self, {"there": str(self.file)}


@pytest.fixture
def start(tmp_path):
    """A function that connects to the cluster."""
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")

    def run(file=file):
        return start_on_cluster("ray", Model(file), OutputRules(), None, 1, lambda n: None)

    return run


def test_files_are_sent_in_pieces(start, ray, monkeypatch):
    monkeypatch.setattr(pool_module, "PIECE", 4)
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert start()._files == {"there": [b"0123", b"4567", b"89"]}


def test_a_file_that_is_gone(start, ray, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(FileNotFoundError):
        start("/nowhere/at/all")
    assert ray.is_closed and list(pieces_of(os.devnull)) == []


@pytest.fixture
def cluster(monkeypatch):
    skips.needs("ray")
    # It sets them.
    for name in ("PYTHONPATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_worker_niceness"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    with RayCluster() as cluster:
        yield cluster


@pytest.fixture
def arguments(corpus, baseline, tmp_path):
    source = tmp_path / "in"
    source.write_text("".join(f"{' '.join('abcdefghij'[: n % 9])}\n" for n in range(N_LINES)))

    def make(output):
        fixed = [corpus, "--path", baseline, "--cpu", "--no-progress-bar", "--max-len-b", 12]
        fixed += ["-s", "en", "-t", "de", "--decoding", "greedy", "--chunk-size", 10]
        fixed += ["--input", source, "--output", tmp_path / output]
        return [str(argument) for argument in fixed]

    return make


def wait_for(condition, process):
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_node_and_a_coordinator_that_are_killed_change_nothing(cluster, arguments, tmp_path):
    command.main([*arguments("whole"), "--workers", "1"])

    def start(address):
        given = [*COMMAND, *arguments("out"), "--cluster", address]
        environment = {**os.environ, "RAY_ADDRESS": cluster.address}
        return subprocess.Popen(given, env=environment, stderr=subprocess.PIPE, text=True)

    def n_chunks():
        return len(list((tmp_path / "out.parts").glob("*.chunk")))

    first = start("ray")
    wait_for(lambda: n_chunks() > 5, first)
    first.kill()
    first.communicate()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out.parts").glob("*.chunk")}
    assert 5 < len(done) < N_LINES / 10

    second = start(cluster.client_address)
    wait_for(lambda: n_chunks() > len(done) + 5, second)
    assert {path: path.stat().st_mtime_ns for path in done} == done, "a chunk was done twice"
    cluster.replace_node()
    _, told = second.communicate(timeout=400)
    assert second.returncode == 0, told
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert "is lost" in told and f"out: {N_LINES} translated" in told
