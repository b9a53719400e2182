"""Runs whole directories of tests on all cores, in processes of pytest-xdist.

Single files or tests, ``-k``, ``--lf``, ``-s`` and debuggers use one process: starting more takes
longer than a few tests, and a debugger needs the terminal. ``-n`` overrides this.
"""

import os
from pathlib import Path
from typing import Any

import pytest

# Each process has torch and several models in memory.
MOST_PROCESSES = 8
# pytest's names of options that select few tests or need the terminal.
ONE_PROCESS = ("keyword", "lf", "stepwise", "usepdb", "trace", "collectonly")


def use_all_cores(config: pytest.Config) -> None:
    """Set the number of processes before pytest-xdist reads it."""
    given = config.option
    of_xdist = hasattr(config, "workerinput")
    if of_xdist or not config.pluginmanager.hasplugin("xdist") or not _is_large(config):
        return
    if given.numprocesses is not None or given.dist != "no" or given.tx:
        return
    cores = _cores()
    given.numprocesses = min(cores, MOST_PROCESSES)
    # Each process starts with consecutive tests, so that most fixtures of modules are created once,
    # and takes over tests of others at the end.
    given.dist = "worksteal"
    # Limit commands started by tests to their share of the cores: threads of compiled code
    # busy-wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", str(cores // given.numprocesses))


def _is_large(config: pytest.Config) -> bool:
    option: Any = config.option
    if option.capture == "no" or any(getattr(option, name, None) for name in ONE_PROCESS):
        return False
    return all((config.invocation_params.dir / Path(name)).is_dir() for name in config.args)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
