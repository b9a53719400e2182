"""The processor's cores that this process may use, and which worker gets which."""

import math
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

CPUS = Path("/sys/devices/system/cpu")
GROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> list[int]:
    """The numbers of the processors that the process may run on, one of each core first.

    Two threads of one core share what computes: workers of their own cores come first.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    cpus = sorted(os.sched_getaffinity(0))
    return sorted(cpus, key=lambda cpu: (_place_among_siblings(cpu), cpu))


def n_usable(cores: list[int]) -> int:
    """The number of them that the process may keep busy: a container's quota can be less."""
    quota = cpu_quota()
    return len(cores) if quota is None else max(1, min(len(cores), math.floor(quota)))


def cpu_quota() -> Optional[float]:
    """The processors' worth of time that the container allows; ``None`` without a limit."""
    try:
        words = (GROUPS / "cpu.max").read_text(encoding="ascii").split()
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        quota, period = (
            int((GROUPS / "cpu" / f"cpu.cfs_{name}_us").read_text(encoding="ascii"))
            for name in ("quota", "period")
        )
        return quota / period if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def cores_of(worker: int, n_workers: int, n_threads: int) -> Optional[list[int]]:
    """The processors for a worker alone; ``None`` if it may run anywhere.

    Workers have processors of their own only where they have all of them between them. With fewer
    workers another program, perhaps of the same kind, would be on the same ones and others idle.
    """
    cores = usable_cores()
    if n_usable(cores) != len(cores) or n_workers * n_threads != len(cores):
        return None
    return cores[worker * n_threads : (worker + 1) * n_threads]


def pin(cores: Optional[Iterable[int]]) -> None:
    """Keep this process on some processors."""
    if cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def _place_among_siblings(cpu: int) -> int:
    """0 for the first of the processors that are one core, 1 for the second, and so on."""
    try:
        text = (CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text("ascii")
        siblings = sorted(number for part in text.strip().split(",") for number in _range(part))
        return siblings.index(cpu)
    except (OSError, ValueError):
        return 0


def _range(text: str) -> range:
    """``0-3`` or ``5``, as the kernel writes lists of processors."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class CoreTurns:
    """Lets at most as many threads decode at the same time as there are cores.

    The engine shares the cores among the calls that are under way.
    """

    def __init__(self) -> None:
        self._n_decoding = 0
        self._changed = threading.Condition()
        self._n_cores = n_usable(usable_cores())

    def __enter__(self) -> None:
        with self._changed:
            while self._n_decoding >= self._n_cores:
                self._changed.wait()
            self._n_decoding += 1

    def __exit__(self, *error: Any) -> None:
        with self._changed:
            self._n_decoding -= 1
            self._changed.notify()


TURNS = CoreTurns()


def _forget_turns() -> None:
    """A forked process has none of the threads that had a turn."""
    TURNS.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_turns)
