"""Workers translate chunks, die, and are replaced; how many a machine gets, and what they share."""

import functools
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fairseq_fastdec.corpora import pool as pool_module
from fairseq_fastdec.corpora import worker
from fairseq_fastdec.corpora.arguments import parse_args
from fairseq_fastdec.corpora.chunks import Chunk, ChunkStore
from fairseq_fastdec.corpora.output_lines import OutputRules, UntranslatedLine
from fairseq_fastdec.corpora.pool import LocalPool, WorkersDie, places, start_workers
from fairseq_fastdec.corpora.worker import Place
from fairseq_fastdec.processes import cores
from tests.support import peak_memory, tiny
from tests.support.capitals import Capitals, capitals, die


@pytest.fixture
def counted():
    """The numbers of lines that a pool reports."""
    return []


@pytest.fixture
def pool_of(tmp_path, counted):
    """A function that starts a pool; the directory of its store is ``chunks``."""
    (tmp_path / "chunks").mkdir()

    def start(n_workers=2, stores=True, forks=True):
        store = ChunkStore(tmp_path / "chunks") if stores else None
        load = functools.partial(capitals, tmp_path)
        return LocalPool([Place()] * n_workers, load, store, counted.append, forks)

    return start


def results(pool, chunks):
    """The outcomes of chunks, by number."""
    found, left = {}, list(chunks)
    while left or pool.is_busy:
        while left and pool.has_room:
            pool.submit(left.pop(0))
        for chunk, outcome in pool.results(60):
            found[chunk.number if chunk is not None else None] = outcome
            if isinstance(outcome, Exception):
                return found
    return found


def chunks(*sources):
    return [Chunk(n, 10 * n, source.encode()) for n, source in enumerate(sources)]


def processes():
    return [process.pid for process in multiprocessing.active_children()]


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "spawned"])
def test_chunks_are_written_by_their_workers(pool_of, tmp_path, forks):
    with pool_of(forks=forks) as pool:
        assert results(pool, chunks("a\nb\n", "c\n", "d\n")) == {0: None, 1: None, 2: None}
    store = ChunkStore(tmp_path / "chunks")
    assert [store.read(n).content for n in range(3)] == [b"A\nB\n", b"C\n", b"D\n"]


def test_chunks_come_back_without_a_store(pool_of, tmp_path):
    with pool_of(stores=False) as pool:
        assert results(pool, chunks("a\nb\n")) == {0: (b"A\nB\n", {"translated": 2})}
    assert list((tmp_path / "chunks").iterdir()) == []


def test_progress_is_counted_and_taken_back(pool_of, counted, monkeypatch):
    monkeypatch.setattr(worker, "BETWEEN_REPORTS", 0)
    with pool_of(1) as pool:
        results(pool, chunks("a\ndie once\n"))
    assert [n for n in counted if n] == [1, 1, -2, 1, 1]


def test_a_worker_that_dies_is_replaced(pool_of, caplog):
    with pool_of() as pool:
        found = results(pool, chunks("a\n", "die once\n", "c\n", "die once\n", "e\n"))
    assert found == dict.fromkeys(range(5))
    assert "killed by SIGKILL) and was replaced; chunk 1 again" in caplog.text


def test_a_chunk_that_was_written_before_its_worker_died_is_not_translated_again(
    pool_of, tmp_path, counted, monkeypatch
):
    def die(connection, message):
        if message is None:
            os.kill(os.getpid(), signal.SIGKILL)
        connection.send(message)

    monkeypatch.setattr(worker, "_send", die)
    with pool_of(1) as pool:
        assert results(pool, chunks("a\n")) == {0: None}
    assert sum(counted) == 1
    assert ChunkStore(tmp_path / "chunks").read(0).content == b"A\n"


def test_a_worker_that_is_ended_at_once(pool_of, monkeypatch):
    """It does not run this process's handler, which would go on with the tests in the worker."""

    def stop(*_):
        raise SystemExit

    tester, fork = os.getpid(), os.fork

    def ended():
        process = fork()
        if process == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return process

    before = signal.signal(signal.SIGTERM, stop)
    try:
        monkeypatch.setattr(os, "fork", ended)
        with pool_of(1) as pool:
            (own,) = pool._workers
            own.process.join(120)
            assert own.process.exitcode == -signal.SIGTERM
    finally:
        if os.getpid() != tester:
            os._exit(77)
        signal.signal(signal.SIGTERM, before)


def test_idle_workers_are_replaced_too(pool_of):
    with pool_of() as pool:
        assert results(pool, chunks("a\n"))
        for process in processes():
            os.kill(process, signal.SIGKILL)
        assert len(results(pool, chunks("a\n", "b\n", "c\n"))) == 3


def test_lines_over_which_all_workers_die_end_the_command(pool_of):
    with pool_of() as pool:
        error = results(pool, chunks("a\n", "b\ndie\n", "c\n"))[1]
    assert isinstance(error, WorkersDie)
    assert "lines 11 to 12 of the input: 5 workers" in str(error) and "SIGKILL" in str(error)


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "spawned"])
def test_workers_that_never_begin(forks, counted, monkeypatch):
    monkeypatch.setattr(pool_module, "MOST_DEATHS", 2)
    with LocalPool([Place()], die, None, counted.append, forks) as pool:
        error = results(pool, chunks("a\n"))[None]
    assert isinstance(error, WorkersDie)
    assert "before they translate a chunk (exit code 7)" in str(error)


def fail(_):
    raise ValueError("--path: no such model")


def test_models_that_cannot_be_loaded(counted):
    with LocalPool([Place()], fail, None, counted.append, True) as pool:
        error = results(pool, chunks("a\n"))[None]
    assert isinstance(error, OSError) and str(error) == "--path: no such model"


@pytest.mark.parametrize(
    "line, kind, message",
    [
        ("stop", UntranslatedLine, "too long; with --on-error keep-source"),
        ("fail", OSError, "[Errno 28] No space left on device; fix this and run the same command"),
        ("crash", RuntimeError, "KeyError: 'a mistake'"),
    ],
)
def test_workers_return_their_errors(pool_of, line, kind, message):
    with pool_of(1) as pool:
        error = results(pool, chunks(f"a\n{line}\n"))[0]
    assert type(error) is kind and message in str(error)
    assert getattr(error, "number", 1) == 1


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_error_ends_the_workers_at_once(pool_of):
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), pool_of() as pool:
        while not pool.has_room:
            pool.results(60)
        pool.submit(chunks("wait\n")[0])
        started = processes()
        raise KeyboardInterrupt
    assert time.monotonic() - began < 300 and not any(map(is_alive, started))


def test_no_process_is_left_in_the_end(pool_of):
    with pool_of() as pool:
        results(pool, chunks("a\n", "b\n"))
        started = processes()
    assert len(started) == 2 and not any(map(is_alive, started))


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: [0, 2, 1, 3])
    monkeypatch.setattr(cores, "cpu_quota", lambda: None)


@pytest.mark.parametrize(
    "n_workers, n_threads, expected",
    [
        (None, 1, [Place(1, [cpu]) for cpu in (0, 2, 1, 3)]),
        (None, 2, [Place(2, [0, 2]), Place(2, [1, 3])]),
        (None, 3, [Place(3, None)]),
        (None, 9, [Place(9, None)]),
        (2, 1, [Place(1, None)] * 2),
        (6, 1, [Place(1, None)] * 6),
    ],
)
def test_places_on_the_processors(four_cores, n_workers, n_threads, expected):
    assert places(n_workers, n_threads, n_gpus=0) == expected


@pytest.mark.parametrize("n_workers, devices", [(None, [0, 1]), (3, [0, 1, 0]), (1, [0])])
def test_places_on_gpus(n_workers, devices):
    assert [place.device for place in places(n_workers, 1, n_gpus=2)] == devices


class Prepared(Capitals):
    def __init__(self, made):
        made.append(self)
        self.n_prepared = 0

    def prepare(self):
        self.n_prepared += 1


def test_models_are_loaded_and_prepared_once_on_a_cpu(counted):
    made = []
    own_places = places(3, 1, n_gpus=0)
    with start_workers(lambda _: Prepared(made), own_places, None, counted.append):
        assert len(processes()) == 3
    assert [own.n_prepared for own in made] == [1]


def test_workers_of_gpus_load_for_themselves(monkeypatch):
    started, made = [], []
    monkeypatch.setattr(pool_module, "LocalPool", lambda *_, forks: started.append(forks))
    start_workers(lambda _: Prepared(made), places(None, 1, n_gpus=2), None, None)
    assert started == [False] and not made


def private_memory(process):
    """The memory that a process does not share, in MiB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    private = [line.split() for line in lines if line.startswith("Private_")]
    return sum(int(words[1]) for words in private if "Hugetlb" not in words[0]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc here: run it on Linux")
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_workers_share_the_weights(tmp_path, precision, counted):
    """The model has 120 MiB; in int8 the weights take 30; workers have none of it."""
    for language in ("en", "de"):
        tiny.dictionary(peak_memory.WORDS).save(str(tmp_path / f"dict.{language}.txt"))
    peak_memory.write_checkpoint(tmp_path / "model.pt")
    args = parse_args(
        [str(tmp_path / "model.pt"), "--cpu", "-s", "en", "-t", "de"]
        + ["--input", "x", "--output", "y", "--decoding", "greedy", "--max-len-b", "5"]
        + ["--engine-precision", precision, "--batch-size", "4"]
    )
    load = functools.partial(args.model.translator, OutputRules())
    texts = [Chunk(number, 0, b"a b c\nd\n" * 4) for number in range(6)]
    with start_workers(load, places(3, 1, n_gpus=0), None, counted.append) as pool:
        found = results(pool, texts)
        private = [private_memory(process) for process in processes()]
    assert [translated.counts for translated in found.values()] == [{"translated": 8}] * 6
    assert len(private) == 3 and max(private) < 25
