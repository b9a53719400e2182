"""Whole directories of tests are run by all cores, in processes of pytest-xdist.

A file or a test that is named, ``-k``, ``--lf``, ``-s`` and a debugger stay in one process: a few
tests end before further processes have started, and a debugger needs the terminal. ``-n`` decides
otherwise.
"""

import os
from pathlib import Path
from typing import Any

import pytest

# Each process holds torch and several models.
MOST_PROCESSES = 8
# What asks for few tests, or for the terminal: pytest's names of its options.
ONE_PROCESS = ("keyword", "lf", "stepwise", "usepdb", "trace", "collectonly")


def use_all_cores(config: pytest.Config) -> None:
    """Choose the number of processes, before pytest-xdist reads it."""
    given = config.option
    of_xdist = hasattr(config, "workerinput")
    if of_xdist or not config.pluginmanager.hasplugin("xdist") or not _is_large(config):
        return
    if given.numprocesses is not None or given.dist != "no" or given.tx:
        return
    cores = _cores()
    given.numprocesses = min(cores, MOST_PROCESSES)
    # Each begins with its own run of consecutive tests, so that a module's fixtures are mostly made
    # once, and takes over from the others in the end.
    given.dist = "worksteal"
    # Commands that tests start have their share of the cores, too: threads of compiled code wait
    # busily for each other.
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
