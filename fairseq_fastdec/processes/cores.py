"""The processor cores that this process may use, and their assignment to workers."""

import math
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

CPUS = Path("/sys/devices/system/cpu")
GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIPS = Path("/proc/self/cgroup")


def usable_cores() -> list[int]:
    """The logical processors that the process may run on, the first one of each core first.

    Two threads of one core share its execution units, so workers are placed on separate cores
    first.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    cpus = sorted(os.sched_getaffinity(0))
    return sorted(cpus, key=lambda cpu: (_place_among_siblings(cpu), cpu))


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


def _place_among_siblings(cpu: int) -> int:
    """The index of a logical processor among those of its core."""
    try:
        text = (CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text("ascii")
        siblings = sorted(number for part in text.strip().split(",") for number in _range(part))
        return siblings.index(cpu)
    except (OSError, ValueError):
        return 0


def _range(text: str) -> range:
    """Parse ``0-3`` or ``5``, as in the kernel's lists of processors."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


# Limits the number of threads that decode at the same time to the number of cores. The engine
# divides the cores among the calls in progress.
TURNS = threading.Semaphore(n_usable(usable_cores()))


def _forget_turns() -> None:
    """Reset after a fork, since the child has none of the parent's threads."""
    TURNS.__init__(n_usable(usable_cores()))  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_turns)
