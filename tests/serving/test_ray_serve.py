"""Replicas on the nodes of a Ray cluster."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from pathlib import Path

import httpx
import pytest

import fairseq_fastdec
from examples.corpora.ray_cluster import RayCluster
from fairseq_fastdec.serving import ray_serve
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.errors import QueueFull
from fairseq_fastdec.translating.results import SentenceError
from tests.support import skips
from tests.support.services import free_port, until

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "en_de" / "model"
N_CLIENTS = 16


class Handle:
    """Ray Serve's handle of a deployment, whose calls end as the test wants."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.translate = Namespace(remote=lambda text, options: self)
        self.score = Namespace(remote=lambda text, translation, options: self)
        self.cancelled = False

    def __await__(self):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        yield from asyncio.sleep(outcome).__await__()
        return "translated"

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def errors(monkeypatch):
    """Ray's classes of errors."""
    skips.needs("ray")
    monkeypatch.setattr(ray_serve, "BEFORE_NEXT", 0.0)
    from ray import exceptions
    from ray.serve.exceptions import BackPressureError

    return Namespace(
        lost=exceptions.ActorDiedError(),
        unavailable=exceptions.ActorUnavailableError("", None),
        full=BackPressureError(3, 3),
        of_sentence=exceptions.RayTaskError("f", "trace", SentenceError({0: "too long"}, [None])),
    )


def translate(*outcomes):
    translator = ray_serve.ClusterTranslator(Handle(*outcomes), lambda: None)
    try:
        return asyncio.run(translator.translate_async("a"))
    finally:
        assert translator.queued() == (0, 0)


def test_a_sentence_of_a_lost_replica_is_translated_again(errors):
    assert translate(0) == "translated"
    # Once it was accepted, a full queue does not refuse it.
    assert translate(errors.lost, errors.full, errors.unavailable, 0) == "translated"


def test_scores_are_asked_of_replicas(errors):
    translator = ray_serve.ClusterTranslator(Handle(errors.lost, 0), lambda: None)
    found = asyncio.run(translator.score_async("a", "b", source="en", target="de"))
    assert found == "translated"


def test_a_sentence_that_ends_its_replicas(errors):
    with pytest.raises(RuntimeError, match="5 replicas were lost"):
        translate(*[errors.lost] * 5)


def test_errors_of_replicas(errors):
    with pytest.raises(QueueFull):
        translate(errors.full)
    with pytest.raises(SentenceError) as error:
        translate(errors.of_sentence)
    assert error.value.errors == {0: "too long"}


def test_a_call_that_is_cancelled(errors):
    handle = Handle(60)

    async def run():
        translator = ray_serve.ClusterTranslator(handle, lambda: None)
        call = asyncio.ensure_future(translator.translate_async("a"))
        await asyncio.sleep(0.01)
        assert translator.queued() == (0, 1)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call

    asyncio.run(run())
    assert handle.cancelled


@pytest.fixture
def cluster(monkeypatch):
    skips.needs("ray")
    # It sets them.
    for name in ("PYTHONPATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_worker_niceness"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    with RayCluster(n_nodes=1) as cluster:
        yield cluster


@contextlib.contextmanager
def serving(cluster, log, *words):
    """A server on a cluster: its process, and its address."""
    port = free_port()
    command = [sys.executable, "-m", "fairseq_fastdec", "serve", *map(str, words), "--ray"]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    with open(log, "w") as file:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=ROOT, env=environment, stderr=file
        )
    url = f"http://127.0.0.1:{port}"

    def is_up():
        assert process.poll() is None, log.read_text()
        try:
            return httpx.get(f"{url}/health").status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(is_up, seconds=100)
        yield process, url
    finally:
        process.kill()
        process.wait()


def n_replicas(url):
    """How many processes translate for a server, by their titles."""
    port = url.rpartition(":")[2]
    title = re.compile(rf"ray::ServeReplica:fastdec-.+-{port}-en-de:")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return sum(bool(title.match(line)) for line in processes.stdout.splitlines())


def test_a_node_that_is_killed_under_load(cluster, tmp_path):
    bundle, log = tmp_path / "model.fastdec", tmp_path / "log"
    export(fairseq_fastdec.load(str(MODEL)), bundle)
    answers, has_ended = [], threading.Event()

    def post(url, sentence, client=httpx):
        fields = {"q": sentence, "source": "en", "target": "de"}
        return client.post(f"{url}/translate", json=fields, timeout=90)

    def ask(url, number):
        with httpx.Client() as client:
            for n in range(100_000):
                if has_ended.is_set():
                    return
                sentence = f"Open file {number} and save {n} documents."
                answers.append((sentence, post(url, sentence, client)))

    with serving(cluster, log, bundle, "--batch-size", 4, "--beam", 4) as (process, url):
        assert n_replicas(url) == 1
        clients = [threading.Thread(target=ask, args=(url, n)) for n in range(N_CLIENTS)]
        for client in clients:
            client.start()
        try:
            # Ray Serve starts a second one, since sentences wait, on the second node: each has room
            # for one.
            cluster.add_node()
            until(lambda: n_replicas(url) == 2, seconds=100)
            n_before = len(answers)
            until(lambda: len(answers) > n_before + 50, seconds=60)
            # With the first replica, which has sentences unless Ray Serve holds all of them back,
            # as it does where processes answer late.
            cluster.kill_node()
            n_before = len(answers)
            until(lambda: len(answers) > n_before + 200, seconds=100)
        finally:
            has_ended.set()
            for client in clients:
                client.join()
        metrics = httpx.get(f"{url}/metrics").text
        text = " ".join(["Save the document."] * 50)
        last = []
        asking = threading.Thread(target=lambda: last.append(post(url, text)))
        asking.start()
        idle = 'under_way{source="en",target="de"} 0.0'
        until(lambda: idle not in httpx.get(f"{url}/metrics").text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        asking.join()
    assert last[0].status_code == 200
    assert {answer.status_code for _, answer in answers} == {200}
    count = f'{{path="/translate",status="200"}} {float(len(answers))}'
    assert f"fastdec_requests_total{count}" in metrics
    assert f'fastdec_sentences_total{{source="en",target="de"}} {float(len(answers))}' in metrics
    with contextlib.closing(fairseq_fastdec.load(bundle, beam=4)) as direct:
        expected = direct.translate([sentence for sentence, _ in answers])
    assert [answer.json()["translatedText"] for _, answer in answers] == expected
