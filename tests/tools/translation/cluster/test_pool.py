"""Machines come, go, fail and get chunks."""

import functools

import pytest

from fairseq_fastdec.tools.translation.chunks import Chunk, ChunkStore
from fairseq_fastdec.tools.translation.cluster import pool as pool_module
from fairseq_fastdec.tools.translation.cluster.pool import ClusterPool, MachineLost, NoMachine
from fairseq_fastdec.tools.translation.coordinator import Coordinator, TextWork, complete
from fairseq_fastdec.tools.translation.pool import Lost, WorkersDie
from fairseq_fastdec.tools.translation.progress_bar import LineBar
from fairseq_fastdec.tools.translation.text_files import TextInput
from fairseq_fastdec.tools.translation.worker import Done, Failed, Progress
from tests.support.capitals import Capitals
from tests.support.pretended_cluster import PretendedCluster

LINES = [f"line {number}" for number in range(40)]


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    monkeypatch.setattr(pool_module, "BETWEEN_LOOKS", 0.0)


@pytest.fixture
def cluster(tmp_path):
    return PretendedCluster(Capitals(tmp_path))


@pytest.fixture
def store(tmp_path):
    (tmp_path / "chunks").mkdir()
    return ChunkStore(tmp_path / "chunks")


@pytest.fixture
def translate(cluster, store, tmp_path):
    """A function that translates lines, two in each chunk, and returns the output."""

    def run(lines):
        (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
        text = TextInput([str(tmp_path / "text")])
        new_bar = functools.partial(LineBar, None, False)
        start_pool = functools.partial(ClusterPool, cluster, store)
        coordinator = Coordinator(TextWork(text, 2), store, start_pool, new_bar)
        complete(coordinator, text, store, tmp_path / "out")
        return (tmp_path / "out").read_text()

    return run


def capitals(lines):
    return "".join(f"{line}\n" for line in lines).upper()


def test_all_machines_take_part(cluster, translate):
    machines = [cluster.add(name) for name in "abc"]
    assert translate(LINES) == capitals(LINES)
    assert all(machine.n_finished > 2 for machine in machines)
    assert cluster.is_closed


def test_a_machine_that_goes_gives_its_chunks_back(cluster, translate, caplog):
    cluster.add("a", dies_with=2)
    other = cluster.add("b")
    del cluster.at_wait

    def at_wait():
        if cluster.released:
            cluster.machines.pop("a", None)

    cluster.at_wait = at_wait
    assert translate(LINES) == capitals(LINES)
    assert other.n_finished == 20
    assert "a is lost (somebody pulled the plug); 2 chunks again" in caplog.text


def test_a_machine_that_comes_gets_chunks(cluster, translate):
    first = cluster.add("a")

    def at_wait():
        if first.n_finished > 5 and "b" not in cluster.machines:
            cluster.add("b")

    cluster.at_wait = at_wait
    assert translate(LINES) == capitals(LINES)
    assert cluster.machines["b"].n_finished > 3


def test_all_machines_may_go_before_others_come(cluster, translate):
    first = cluster.add("a")

    def at_wait():
        if first.n_finished > 5 and "a" in cluster.machines:
            del cluster.machines["a"]
            cluster.add("b")

    cluster.at_wait = at_wait
    assert translate(LINES) == capitals(LINES)


def test_what_was_done_of_a_lost_chunk_is_taken_back(cluster, store):
    machine = cluster.add("a", n_workers=1)
    with ClusterPool(cluster, store) as pool:
        assert pool.messages() == [] and pool.has_room and not pool.is_busy
        chunk = Chunk(0, 0, b"worker dies\nb\n")
        pool.submit(chunk)
        assert not pool.has_room and pool.is_busy
        assert pool.messages() == [(chunk, Progress(1)), (chunk, Progress(-1)), (chunk, Lost())]
        pool.submit(chunk)
        machine.reported = lambda: [(0, Progress(1))]
        assert pool.messages() == [(chunk, Progress(1))]
        del cluster.machines["a"]
        assert pool.messages() == [(chunk, Progress(-1)), (chunk, Lost())]
        assert not pool.is_busy and not pool.has_room


def test_workers_that_die_again_and_again(cluster, translate):
    cluster.add("a")
    with pytest.raises(WorkersDie, match="lines 3 to 4 of the input: 5 workers ended .* on a"):
        translate(["a", "b", "worker dies", "d"])
    assert cluster.is_closed


def test_machines_that_end_again_and_again(cluster, translate):
    cluster.add("a", dies_with=1)
    with pytest.raises(WorkersDie, match="lines 1 to 2 of the input: 5 workers .* with a"):
        translate(["a", "b"])
    assert cluster.n_started["a"] == 5


def test_a_machine_whose_own_workers_die_says_so(cluster, store):
    machine = cluster.add("a")
    with ClusterPool(cluster, store) as pool:
        pool.messages()
        pool.submit(Chunk(0, 0, b"a\n"))
        machine.reported = lambda: [(-1, WorkersDie("workers end before they translate"))]
        with pytest.raises(WorkersDie, match="^a: workers end before they translate"):
            pool.messages()


def test_a_machine_that_cannot_take_part_is_left_out(cluster, translate, caplog):
    cluster.add("a", told=Failed("has no disk"))
    cluster.add("b")
    assert translate(LINES) == capitals(LINES)
    assert "a takes no part: has no disk" in caplog.text and cluster.n_started["a"] == 1


def test_a_machine_that_never_starts_is_left_out(cluster, translate, caplog):
    cluster.add("a", told=MachineLost("no such package"))
    cluster.add("b")
    assert translate(LINES) == capitals(LINES)
    assert "a takes no part: no such package" in caplog.text and cluster.n_started["a"] == 5


def test_no_machine_can_take_part(cluster, translate):
    cluster.add("a", told=Failed("has no disk"))
    with pytest.raises(NoMachine, match="--cluster: no machine can take part; a: has no disk"):
        translate(LINES)


def test_a_full_disk(cluster, store, monkeypatch):
    cluster.add("a")

    def write(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write", write)
    with ClusterPool(cluster, store) as pool:
        pool.messages()
        chunk = Chunk(0, 0, b"a\n")
        pool.submit(chunk)
        assert pool.messages()[-1] == (chunk, Failed("[Errno 28] No space left on device"))


def test_chunks_go_on_where_there_is_no_store(cluster):
    cluster.add("a")
    with ClusterPool(cluster, None) as pool:
        pool.messages()
        pool.submit(Chunk(0, 0, b"a\n"))
        (_, message) = pool.messages()[-1]
    assert isinstance(message, Done) and message.translated.content == b"A\n"


def test_whoever_waits_for_a_machine_is_told_once(cluster, store, monkeypatch, caplog):
    monkeypatch.setattr(pool_module, "TO_WARN", -1.0)
    with ClusterPool(cluster, store) as pool:
        for _ in range(3):
            assert pool.messages() == []
    assert caplog.text.count("the cluster has no machine with room for a worker") == 1
