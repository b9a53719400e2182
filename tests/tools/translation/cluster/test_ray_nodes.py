"""A cluster of Ray: three nodes on this machine, one of which is killed."""

import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from examples.corpora.ray_cluster import RayCluster
from fairseq_fastdec.tools.command_line import to_config
from fairseq_fastdec.tools.translation import command
from fairseq_fastdec.tools.translation.arguments import parse_args
from fairseq_fastdec.tools.translation.cluster.node import Job
from fairseq_fastdec.tools.translation.cluster.pool import Node
from fairseq_fastdec.tools.translation.cluster.ray_nodes import RayNodes
from tests.support import skips

ROOT = Path(__file__).resolve().parents[4]
SCRIPT = ROOT / "scripts" / "translate_corpus.py"
N_LINES = 4000


class PretendedRay:
    """The few functions of Ray that need no cluster here."""

    def __init__(self, nodes=(), refuses=False):
        self.nodes = lambda: list(nodes)
        self.refuses = refuses
        self.shut_down = False

    def init(self, **_):
        if self.refuses:
            raise ConnectionError("Could not find any running Ray instance.\nPlease specify one")

    def shutdown(self):
        self.shut_down = True


@pytest.fixture
def job_of(corpus, baseline):
    """A function that gives what the nodes are to do, with options."""

    def make(*given, n_workers=0, n_threads=1):
        fixed = [corpus, "--path", baseline, "--input", "x", "--output", "y"]
        cfg = to_config(parse_args([str(argument) for argument in [*fixed, *given]]))
        return Job(cfg, None, Namespace(files={}), n_workers, n_threads, "1")

    return make


def described(name, alive=True, **resources):
    return {"NodeID": name, "NodeManagerHostname": "host", "Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    "resources, given, n_workers, n_threads, expected",
    [
        ({"CPU": 8.0}, [], 0, 1, 8),
        ({"CPU": 8.0}, [], 0, 3, 2),
        ({"CPU": 8.0}, [], 0, 16, 1),
        ({"CPU": 8.0}, [], 5, 1, 5),
        ({"CPU": 8.0, "GPU": 2.0}, [], 0, 1, 2),
        ({"CPU": 8.0, "GPU": 2.0}, ["--cpu"], 0, 1, 8),
        ({}, [], 4, 1, 0),
    ],
)
def test_the_workers_of_a_node(
    monkeypatch, job_of, resources, given, n_workers, n_threads, expected
):
    gone = described("b", alive=False, CPU=8.0)
    ray = PretendedRay([described("a", **resources), gone])
    monkeypatch.setitem(sys.modules, "ray", ray)
    nodes = RayNodes("ray", job_of(*given, n_workers=n_workers, n_threads=n_threads))
    found = nodes.nodes()
    if expected:
        node = Node("a", "host (a)", int(resources["CPU"]), int(resources.get("GPU", 0)))
        assert found == [node] and nodes._n_workers(node) == expected
    else:
        assert found == []


def test_a_cluster_that_does_not_answer(monkeypatch, job_of):
    monkeypatch.setitem(sys.modules, "ray", PretendedRay(refuses=True))
    with pytest.raises(
        ValueError, match="--cluster ray: no cluster answers .Could not .* ray start"
    ):
        RayNodes("ray", job_of())


def test_without_ray(monkeypatch, job_of):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'fairseq_fastdec\[cluster\]'"):
        RayNodes("ray", job_of())


def test_a_file_that_is_gone(monkeypatch, job_of):
    ray = PretendedRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(FileNotFoundError):
        RayNodes("ray", job_of()._replace(baggage=Namespace(files={"x": "/nowhere/at/all"})))
    assert ray.shut_down


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
        given = [sys.executable, SCRIPT, *arguments("out"), "--cluster", address]
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
    cluster.kill_a_node()
    _, told = second.communicate(timeout=400)
    assert second.returncode == 0, told
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert "is lost" in told and f"out: {N_LINES} translated" in told
