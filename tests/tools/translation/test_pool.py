"""Workers get chunks, die, and are replaced."""

import functools
import os
import signal
import time

import pytest

from fairseq_fastdec.tools.translation import worker
from fairseq_fastdec.tools.translation.chunks import Chunk, ChunkStore
from fairseq_fastdec.tools.translation.pool import Lost, Pool, WorkersDie
from fairseq_fastdec.tools.translation.worker import Crashed, Done, Failed, Place, Progress, Stopped
from tests.support.capitals import Capitals


@pytest.fixture
def pool_of(tmp_path):
    """A function that starts a pool; the directory of its store is ``chunks``."""
    (tmp_path / "chunks").mkdir()

    def start(n_workers=2, stores=True, forks=True):
        store = ChunkStore(tmp_path / "chunks") if stores else None
        load = functools.partial(Capitals, tmp_path)
        return Pool([Place()] * n_workers, load, store, forks)

    return start


def results(pool, chunks):
    """All messages but progress, when the chunks are translated."""
    found, left = [], list(chunks)
    while left or pool.is_busy:
        while left and pool.has_room:
            pool.submit(left.pop(0))
        for chunk, message in pool.messages(60):
            found.append((chunk.number, message))
            if isinstance(message, Lost):
                left.append(chunk)
    return [(number, message) for number, message in found if not isinstance(message, Progress)]


def chunks(*sources):
    return [Chunk(n, 10 * n, source.encode()) for n, source in enumerate(sources)]


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "spawned"])
def test_chunks_are_written_by_their_workers(pool_of, tmp_path, forks):
    with pool_of(forks=forks) as pool:
        found = results(pool, chunks("a\nb\n", "c\n", "d\n"))
    assert sorted(number for number, _ in found) == [0, 1, 2]
    assert all(isinstance(message, Done) for _, message in found)
    store = ChunkStore(tmp_path / "chunks")
    assert [store.read(n).content for n in range(3)] == [b"A\nB\n", b"C\n", b"D\n"]


def test_chunks_come_back_where_there_is_no_store(pool_of, tmp_path):
    with pool_of(stores=False) as pool:
        ((_, message),) = results(pool, chunks("a\nb\n"))
    assert message.translated == (b"A\nB\n", {"translated": 2})
    assert list((tmp_path / "chunks").iterdir()) == []


def test_progress_is_told_and_taken_back(pool_of, monkeypatch):
    monkeypatch.setattr(worker, "BETWEEN_REPORTS", 0)
    with pool_of(1) as pool:
        pool_messages, left = [], chunks("a\ndie once\n")
        while left or pool.is_busy:
            while left and pool.has_room:
                pool.submit(left.pop())
            for chunk, message in pool.messages(60):
                pool_messages.append(message)
                left += [chunk] * isinstance(message, Lost)
    counted = [message.n_lines for message in pool_messages if isinstance(message, Progress)]
    assert counted == [1, 1, -2, 1, 1]


def test_whoever_dies_is_replaced(pool_of, caplog):
    with pool_of() as pool:
        found = results(pool, chunks("a\n", "die once\n", "c\n", "die once\n", "e\n"))
    assert sorted(n for n, message in found if isinstance(message, Done)) == [0, 1, 2, 3, 4]
    assert sorted(n for n, message in found if isinstance(message, Lost)) == [1, 3]
    assert "killed by SIGKILL) and was replaced; chunk 1 again" in caplog.text


def test_idle_workers_are_replaced_too(pool_of):
    with pool_of() as pool:
        assert results(pool, chunks("a\n"))
        for process in pool.process_ids():
            os.kill(process, signal.SIGKILL)
        assert len(results(pool, chunks("a\n", "b\n", "c\n"))) >= 3


def test_what_kills_everybody_ends_the_command(pool_of):
    dies = pytest.raises(WorkersDie, match="lines 11 to 12 of the input: 5 workers .*SIGKILL")
    with dies, pool_of() as pool:
        results(pool, chunks("a\n", "b\ndie\n", "c\n"))


def die():
    os._exit(7)


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "spawned"])
def test_workers_that_never_begin(forks):
    dies = pytest.raises(WorkersDie, match="before they translate anything .exit code 7")
    with dies, Pool([Place()], die, None, forks) as pool:
        results(pool, chunks("a\n"))


def fail():
    raise ValueError("--path: no such model")


def test_models_that_cannot_be_loaded():
    with Pool([Place()], fail, None, True) as pool:
        while not (found := pool.messages(60)):
            pass
    assert found == [(None, Failed("--path: no such model"))]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("stop", Stopped(1, "too long")),
        ("fail", Failed("[Errno 28] No space left on device")),
    ],
)
def test_workers_say_why_they_do_not_go_on(pool_of, line, expected):
    with pool_of(1) as pool:
        ((_, message),) = results(pool, chunks(f"a\n{line}\n"))
    assert message == expected


def test_mistakes_come_with_their_traceback(pool_of):
    with pool_of(1) as pool:
        ((_, message),) = results(pool, chunks("crash\n"))
    assert isinstance(message, Crashed) and "KeyError: 'a mistake'" in message.traceback


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
            pool.messages(60)
        pool.submit(chunks("wait\n")[0])
        processes = pool.process_ids()
        raise KeyboardInterrupt
    assert time.monotonic() - began < 30 and not any(map(is_alive, processes))


def test_nobody_is_left_in_the_end(pool_of):
    with pool_of() as pool:
        results(pool, chunks("a\n", "b\n"))
        processes = pool.process_ids()
    assert len(processes) == 2 and not any(map(is_alive, processes))
