"""Prints and runs commands, and skips those whose result exists."""

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from datetime import date
from pathlib import Path
from typing import Any, Optional, TypeVar

from benchmarks.processor import processor
from fairseq_fastdec.processes.cores import n_usable, usable_cores

from .table import translated_line

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "fairseq_fastdec"
# The threads of torch in a process that it starts.
THREADS = "OMP_NUM_THREADS"
T = TypeVar("T")
_stages: dict[Path, threading.Lock] = {}


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """End the program with one line if it is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; run the same command again to continue")


def free_port() -> int:
    """A port of this machine that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def finished(directory: Path) -> bool:
    """Whether a stage has finished; an unfinished training is resumed."""
    return (directory / "finished").exists()


def commit() -> str:
    """The commit of this checkout; empty without git.

    It ends in ``-dirty`` if files have changed, except pages and figures: commands write these.
    """
    if shutil.which("git") is None:
        return ""
    revision = git("describe", "--always").stdout.strip()
    changed = git("diff", "--quiet", "HEAD", "--", ".", ":!*.md", ":!benchmarks/*.json")
    return f"{revision}-dirty" if revision and changed.returncode else revision


def git(*words: str) -> subprocess.CompletedProcess[str]:
    """Run git in this checkout."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def provenance() -> dict[str, str]:
    """Where results of this moment are from: the first fields of a JSON file of results."""
    return {"date": str(date.today()), "commit": commit(), "processor": processor()}


def benchmark(options: list, methods: Mapping[str, str], output: Path) -> list:
    """The command of ``benchmarks.compare`` on a CPU, with the options of each method by name."""
    specs = (f"{name}: {own}" for name, own in methods.items())
    return [
        *module("benchmarks.compare"), *options, "--device", "cpu", "--output", output,
        *(word for spec in specs for word in ("--method", spec)),
    ]  # fmt: skip


def run_benchmark(command: list, output: Path) -> dict[str, Any]:
    """Run a command of ``benchmarks.compare``, and return the JSON that it writes to ``output``.

    Args:
        output: the command's ``--output``.
    """
    run(command)
    return json.loads((output / "benchmark.json").read_text(encoding="utf-8"))


def mark_finished(directory: Path) -> None:
    """Record that a stage has finished, and where its results are from."""
    (directory / "finished").write_text(json.dumps(provenance()), encoding="utf-8")


def origin(directory: Path) -> dict[str, str]:
    """Where the results of a finished stage are from, see :func:`provenance`."""
    return json.loads((directory / "finished").read_text(encoding="utf-8"))


def stage(folder: Path, *commands: list) -> None:
    """Run commands that write into a folder, unless they have finished.

    Other threads that need the folder wait.
    """
    with _stages.setdefault(folder, threading.Lock()):
        if not finished(folder):
            for command in commands:
                run(command)
            mark_finished(folder)


def side_by_side(trainings: Sequence[Callable[[], T]]) -> list[T]:
    """Run trainings on all cores that this process may use, each with one thread.

    fairseq-train with one thread computes the same model each time on the same kind of processor,
    even if it is interrupted and continued. With more threads, sums have another order.

    Returns:
        their results

    Raises:
        SystemExit: if a command fails, after those that are running.
    """
    with one_thread(), ThreadPoolExecutor(n_usable(usable_cores())) as pool:
        futures = [pool.submit(training) for training in trainings]
        try:
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        for future in ended:
            future.result()
        return [future.result() for future in futures]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let commands use one thread each."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS]
        if before is not None:
            os.environ[THREADS] = before


def run(
    command: list, log: Optional[Path] = None, environment: Optional[Mapping[str, str]] = None
) -> float:
    """Print a command, run it, and stop everything if it fails.

    Args:
        log: the file for its output, instead of the screen.
        environment: additional environment variables.

    Returns:
        its peak memory in MiB, at least that of this process

    Raises:
        SystemExit: if the command fails.
    """
    words = [str(word) for word in command]
    shown = shlex.join(os.path.relpath(word) if word.startswith("/") else word for word in words)
    print(f"\n+ {shown}", flush=True)
    with open(log, "w", encoding="utf-8") if log else contextlib.nullcontext() as file:
        variables = {**os.environ, **(environment or {})}
        with subprocess.Popen(words, stdout=file, stderr=file, env=variables) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"the last command failed; its output is {f'in {log}' if log else 'above'}")
    return usage.ru_maxrss / 1024


def fairseq(command: str) -> list:
    """fairseq-train or fairseq-generate of the running Python."""
    return [Path(sys.executable).parent / f"fairseq-{command}"]


def module(*words: str) -> list:
    """``python -m`` with the running Python: a module, and the command of one that has several."""
    return [sys.executable, "-m", *words]


def generate_into(output: Path, arguments: list, program: Optional[list] = None) -> None:
    """Run fairseq-generate with translations and log in ``output``, and mark it as finished.

    Args:
        program: a command to run instead of fairseq-generate.
    """
    output.mkdir(parents=True, exist_ok=True)
    command = [*(program or fairseq("generate")), *arguments, "--results-path", output]
    run(command, log=output / "log.txt")
    print("  " + translated_line(output))
    mark_finished(output)


def statistics_options(options: list[str], output: Path) -> list:
    """The option for statistics next to the translations, for methods that have them."""
    return [] if "fairseq" in options else ["--decoding-stats", output / "stats.jsonl"]
