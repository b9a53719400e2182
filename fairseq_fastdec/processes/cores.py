"""The processor cores that this process may use, and their assignment to workers."""

import math
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

CPUS = Path("/sys/devices/system/cpu")
NODES = Path("/sys/devices/system/node")
# The efficient cores of Intel's processors with cores of two kinds.
EFFICIENT = Path("/sys/devices/cpu_atom/cpus")
GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIPS = Path("/proc/self/cgroup")


def usable_cores() -> list[int]:
    """The logical processors that the process may run on, the first one of each core first.

    Two threads of one core share its execution units, so workers are placed on separate cores
    first, and on fast cores before efficient ones.
    """
    cpus = _allowed()
    slow = _slow(cpus)
    return sorted(cpus, key=lambda cpu: (_place_among_siblings(cpu), cpu in slow, cpu))


def description() -> str:
    """A line about the processors, such as ``3 processors: 2 cores, 4 online, a quota of 2.5``."""
    cpus, n_online, quota = usable_cores(), os.cpu_count(), cpu_quota()
    slow = _slow(cpus)
    n_cores, n_slow = (
        sum(_place_among_siblings(cpu) == 0 for cpu in some) for some in (cpus, slow)
    )
    nodes = [path for path in NODES.glob("node*/cpulist") if _numbers(path) & {*cpus}]
    told = f"{len(cpus)} processors: {n_cores} cores"
    told += f", of which {n_slow} are efficient ones" if n_slow else ""
    told += f", {n_online} online" if n_online != len(cpus) else ""
    told += f", {len(nodes)} NUMA nodes" if len(nodes) > 1 else ""
    return told + (f", a quota of {quota:g}" if quota is not None and quota < len(cpus) else "")


def n_usable(cores: list[int]) -> int:
    """The number of ``cores`` that the process may keep busy; a container's quota can be lower."""
    quota = cpu_quota()
    return len(cores) if quota is None else max(1, min(len(cores), math.floor(quota)))


def cpu_quota() -> Optional[float]:
    """The quota in processors of this process's control groups; ``None`` without a limit."""
    quotas = [quota for group in _groups() if (quota := _quota_of(group)) is not None]
    return min(quotas, default=None)


def _groups() -> set[Path]:
    """The folders of the control groups that limit processors: the innermost and those around."""
    groups = {GROUPS, GROUPS / "cpu"}
    try:
        lines = MEMBERSHIPS.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return groups
    for line in lines:
        _, controllers, path = line.split(":", 2)
        # In the second version, one hierarchy has all controllers, and their field is empty.
        if not controllers or "cpu" in controllers.split(","):
            root = GROUPS / "cpu" if controllers else GROUPS
            innermost = root / path.strip("/")
            groups.update(
                group for group in (innermost, *innermost.parents) if root in group.parents
            )
    return groups


def _quota_of(group: Path) -> Optional[float]:
    try:
        words = (group / "cpu.max").read_text(encoding="ascii").split()
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        quota, period = (
            int((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii"))
            for name in ("quota", "period")
        )
        return quota / period if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def cores_of(worker: int, n_workers: int, n_threads: int) -> Optional[list[int]]:
    """The processors reserved for a worker; ``None`` if it may run anywhere.

    Processors are reserved only if the workers together use all of them. With fewer workers,
    another program could be pinned to the same processors while others are idle.
    """
    cores = usable_cores()
    if n_usable(cores) != len(cores) or n_workers * n_threads != len(cores):
        return None
    return cores[worker * n_threads : (worker + 1) * n_threads]


def pin(cores: Optional[Iterable[int]]) -> None:
    """Restrict this process to some processors."""
    if cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def _allowed() -> list[int]:
    """The logical processors that the process may run on."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    return sorted(os.sched_getaffinity(0))


def _place_among_siblings(cpu: int) -> int:
    """The index of a logical processor among those of its core."""
    siblings = _numbers(CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list")
    return sorted(siblings).index(cpu) if cpu in siblings else 0


def _slow(cpus: Iterable[int]) -> set[int]:
    """Those of some processors whose cores are slower than others of this machine."""
    capacities = {
        cpu: max(_numbers(CPUS / f"cpu{cpu}" / "cpu_capacity"), default=0) for cpu in cpus
    }
    most = max(capacities.values(), default=0)
    efficient = _numbers(EFFICIENT)
    return {cpu for cpu, own in capacities.items() if own < most or cpu in efficient}


def _numbers(path: Path) -> set[int]:
    """The numbers of one of the kernel's lists, such as ``0-3,8``; none if it cannot be read."""
    try:
        parts = path.read_text("ascii").strip().split(",")
        bounds = [part.partition("-") for part in parts]
        return {n for low, _, high in bounds for n in range(int(low), int(high or low) + 1)}
    except (OSError, ValueError):
        return set()


# Limits the number of threads that decode at the same time to the number of cores. The engine
# divides the cores among the calls in progress.
TURNS = threading.Semaphore(n_usable(_allowed()))


def _forget_turns() -> None:
    """Reset after a fork, since the child has none of the parent's threads."""
    TURNS.__init__(n_usable(_allowed()))  # type: ignore[misc]


os.register_at_fork(after_in_child=_forget_turns)
