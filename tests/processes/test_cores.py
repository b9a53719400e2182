"""Which cores there are, and who gets which."""

import contextlib
import os
import threading

import pytest

from fairseq_fastdec.processes import cores
from tests.support.forked import exit_status


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A function that makes a machine of some processors; pairs of them are one core."""

    def make(n_cpus, pairs=(), quota=None, capacities=(), efficient="", nodes=()):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(n_cpus)), raising=False)
        monkeypatch.setattr(cores, "CPUS", tmp_path / "cpu")
        monkeypatch.setattr(cores, "GROUPS", tmp_path)
        monkeypatch.setattr(cores, "MEMBERSHIPS", tmp_path / "cgroup")
        for pair in pairs:
            for cpu in pair:
                topology = tmp_path / "cpu" / f"cpu{cpu}" / "topology"
                topology.mkdir(parents=True)
                siblings = ",".join(map(str, pair))
                (topology / "thread_siblings_list").write_text(siblings + "\n")
        monkeypatch.setattr(cores, "NODES", tmp_path / "node")
        monkeypatch.setattr(cores, "EFFICIENT", tmp_path / "efficient")
        (tmp_path / "efficient").write_text(efficient)
        for cpu, capacity in enumerate(capacities):
            (tmp_path / "cpu" / f"cpu{cpu}").mkdir(parents=True, exist_ok=True)
            (tmp_path / "cpu" / f"cpu{cpu}" / "cpu_capacity").write_text(f"{capacity}\n")
        for node, cpus in enumerate(nodes):
            (tmp_path / "node" / f"node{node}").mkdir(parents=True)
            (tmp_path / "node" / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
        if quota is not None:
            (tmp_path / "cpu.max").write_text(quota + "\n")

    return make


def test_a_processor_of_each_core_comes_first(machine):
    machine(4, pairs=[(0, 1), (2, 3)])
    assert cores.usable_cores() == [0, 2, 1, 3]


@pytest.mark.parametrize(
    "kinds", [dict(capacities=[400, 400, 1024, 1024]), dict(efficient="0-1\n")]
)
def test_fast_cores_come_first(machine, kinds):
    machine(4, **kinds)
    assert cores.usable_cores() == [2, 3, 0, 1]
    assert "4 cores, of which 2 are efficient ones" in cores.description()


def test_what_was_found(machine, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    nodes = ["0-1,4", "2-3", "5-7"]
    machine(4, pairs=[(0, 1), (2, 3)], quota="250000 100000", nodes=nodes)
    assert cores.description() == "4 processors: 2 cores, 8 online, 2 NUMA nodes, a quota of 2.5"


@pytest.mark.parametrize(
    "text, numbers", [("0-2\n", {0, 1, 2}), ("5", {5}), ("0-1,4,6-7", {0, 1, 4, 6, 7}), ("", set())]
)
def test_lists_of_the_kernel(text, numbers, tmp_path):
    (tmp_path / "list").write_text(text)
    assert cores._numbers(tmp_path / "list") == numbers
    assert cores._numbers(tmp_path / "none") == set()


@pytest.mark.parametrize(
    "quota, n", [(None, 4), ("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1)]
)
def test_a_containers_quota(machine, quota, n):
    machine(4, quota=quota)
    assert cores.n_usable(cores.usable_cores()) == n


def test_the_quota_of_older_kernels(machine, tmp_path):
    machine(4)
    (tmp_path / "cpu").mkdir(exist_ok=True)
    for name, value in (("quota", 150000), ("period", 100000)):
        (tmp_path / "cpu" / f"cpu.cfs_{name}_us").write_text(f"{value}\n")
    assert cores.cpu_quota() == 1.5
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores.cpu_quota() is None


@pytest.mark.parametrize("limited", ["", "system.slice", "system.slice/fastdec.service"])
def test_the_quota_of_a_service_and_of_groups_around_it(machine, tmp_path, limited):
    machine(4)
    (tmp_path / "cgroup").write_text("0::/system.slice/fastdec.service\n")
    (tmp_path / "system.slice" / "fastdec.service").mkdir(parents=True)
    (tmp_path / "system.slice" / "other.service").mkdir(parents=True)
    for group, quota in (("system.slice/other.service", 1), (limited, 2), ("system.slice", 3)):
        if group != limited or quota == 2:
            (tmp_path / group / "cpu.max").write_text(f"{quota}00000 100000\n")
    assert cores.cpu_quota() == 2


def test_the_quota_of_a_service_in_older_kernels(machine, tmp_path):
    machine(4)
    (tmp_path / "cgroup").write_text("4:memory:/a\n3:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n")
    for group, quota in (("cpu/a", 150000), ("cpu/a/b", -1), ("memory/a", 50000)):
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        for name, value in (("quota", quota), ("period", 100000)):
            (tmp_path / group / f"cpu.cfs_{name}_us").write_text(f"{value}\n")
    assert cores.cpu_quota() == 1.5


def test_workers_that_take_the_whole_machine_have_their_own_cores(machine):
    machine(4, pairs=[(0, 1), (2, 3)])
    assert [cores.cores_of(n, 2, 2) for n in range(2)] == [[0, 2], [1, 3]]
    assert cores.cores_of(0, 2, 1) is None and cores.cores_of(0, 3, 2) is None


def test_nobody_is_pinned_where_a_quota_rules(machine):
    machine(4, quota="200000 100000")
    assert cores.cores_of(0, 4, 1) is None


def test_pinning(monkeypatch):
    pinned = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *given: pinned.append(given), raising=False)
    cores.pin(None)
    cores.pin([1, 2])
    assert pinned == [(0, [1, 2])]


@pytest.mark.parametrize("most", [1, 2, 4])
def test_at_most_one_thread_for_each_core_decodes(most, monkeypatch):
    monkeypatch.setattr(cores.TURNS, "_value", most)
    lock, n_now, seen = threading.Lock(), [0], []
    leave = threading.Event()

    def decode():
        with cores.TURNS:
            with lock:
                n_now[0] += 1
                seen.append(n_now[0])
                if len(seen) >= most:
                    leave.set()
            leave.wait(120)
            with lock:
                n_now[0] -= 1

    threads = [threading.Thread(target=decode) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) == most and len(seen) == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork: run it on Linux or macOS")
def test_a_forked_process_has_all_turns():
    def take_all():
        with contextlib.ExitStack() as taken:
            for _ in range(cores.n_usable(cores.usable_cores())):
                taken.enter_context(cores.TURNS)

    with cores.TURNS:
        assert exit_status(take_all) == 0
