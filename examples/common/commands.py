"""Prints and runs commands, and skips those whose result exists."""

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Optional

from benchmarks.processor import processor

from .table import translated_line

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "fairseq_fastdec"


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
    """The commit of this checkout; ``-dirty`` if files have changed; empty without git."""
    if shutil.which("git") is None:
        return ""
    described = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(described, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


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
