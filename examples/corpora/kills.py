#!/usr/bin/env python3
"""Translate a long text twice: once undisturbed, and once with kills, damage and a full disk.

    python examples/corpora/kills.py --lines 20000 --kills 6
    python examples/corpora/kills.py --lines 1000000 --kills 50 --ray

Both outputs must be the same. With --ray, some runs translate on a Ray cluster of three simulated
nodes, which are also killed. If this program is interrupted, the same command continues.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

from examples.common import arguments, commands
from examples.common.en_de import EN_DE, MODEL
from examples.common.figures import write_figures
from examples.corpora.ray_cluster import RayCluster
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

# The limit of file sizes that simulates a full disk; every chunk is larger.
FULL = 1000
BETWEEN_LOOKS, BETWEEN_MEASUREMENTS = 0.1, 5.0
# The share of runs on the cluster.
ON_CLUSTER = 0.3
CHUNK = ".chunk"
KILL, DAMAGE, FILL_DISK = "kill", "damage", "full disk"

EXIT_CODES = {KILL: {-signal.SIGKILL, 2}, FILL_DISK: {2}, DAMAGE: set()}


class Failure(Exception):
    """The command misbehaved."""


def main() -> None:
    """Write the text, translate it twice, compare."""
    args = parse_args()
    args.workdir.mkdir(parents=True, exist_ok=True)
    with commands.resumable():
        run = Run(args)
        write_text(run.source, args.lines)
        translate_alone(run)
        with RayCluster() if args.ray else contextlib.nullcontext() as cluster:
            translate_with_kills(run, cluster)
        print(report(run))


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--lines", type=positive, default=20000)
    parser.add_argument("--kills", type=positive, default=6)
    parser.add_argument("--ray", action="store_true", help="also translate on a Ray cluster")
    parser.add_argument("--workers", type=positive, default=2)
    parser.add_argument("--chunk-size", type=positive, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, default=MODEL, help="(default: examples/en_de/model)")
    parser.add_argument("--workdir", type=Path, default=Path("work/corpora"))
    return parser.parse_args()


class Run:
    """The files and the state of a run."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.source = args.workdir / "text"
        self.alone, self.killed = args.workdir / "alone", args.workdir / "killed"
        self.n_chunks = -(-args.lines // args.chunk_size)
        self._state_file = args.workdir / "state.json"
        self.state: dict[str, Any] = {
            "starts": {"alone": 0, "killed": 0, "killed, on the cluster": 0},
            "events": [],
            "done twice": 0,
            "process": None,
        }
        if self._state_file.exists():
            self.state = json.loads(self._state_file.read_text(encoding="utf-8"))

    def save(self) -> None:
        """Write the state."""
        atomic_files.write_text(self._state_file, json.dumps(self.state, indent=1))

    def log(self, message: str) -> None:
        """Print and log a message."""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {message}"
        print(line, flush=True)
        with open(self.args.workdir / "log.txt", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def command(self, output: Path, on_cluster: bool) -> list[str]:
        """The command that translates the text."""
        model = self.args.model
        words = [*commands.module("fairseq_fastdec", "translate"), model]
        words += ["-s", "en", "-t", "de"]
        words += ["--cpu", "--no-progress-bar", "--decoding", "greedy"]
        words += ["--engine-precision", "int8"]
        words += ["--chunk-size", self.args.chunk_size]
        words += ["--input", self.source, "--output", output]
        words += ["--cluster", "ray"] if on_cluster else ["--workers", self.args.workers]
        return [str(word) for word in words]

    def start(self, output: Path, address: Optional[str] = None) -> subprocess.Popen:
        """Start the command, on a Ray cluster if its address is given."""
        self._end_what_is_left()
        environment = {**os.environ, **({"RAY_ADDRESS": address} if address else {})}
        with open(self.args.workdir / "told.txt", "ab") as told:
            process = subprocess.Popen(
                self.command(output, address is not None), env=environment, stdout=told, stderr=told
            )
        kind = output.name + (", on the cluster" if address else "")
        self.state["starts"][kind] += 1
        self.state["process"] = process.pid
        self.save()
        return process

    def _end_what_is_left(self) -> None:
        """End the command of an earlier run of this program that was killed."""
        pid = self.state["process"]
        if pid is not None and str(self.source) in command_line_of(pid):
            os.kill(pid, signal.SIGKILL)


def write_text(path: Path, n_lines: int) -> None:
    """Write the test set repeatedly, with a number in each line."""
    if path.exists():
        return
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()
    numbered = (f"{lines[number % len(lines)]} {number}" for number in range(n_lines))
    atomic_files.write_lines(path, numbered)


def translate_alone(run: Run) -> None:
    """Translate undisturbed, and record memory."""
    if run.alone.exists():
        return
    process, began = run.start(run.alone), time.monotonic()
    memory = MemoryLog(run.args.workdir / "memory.tsv")
    while process.poll() is None:
        time.sleep(BETWEEN_LOOKS)
        memory.note(process.pid, len(list(chunks_in(parts_of(run.alone)))))
    if process.returncode != 0:
        raise Failure(f"exit code {process.returncode}; see told.txt")
    run.log(f"alone: {time.monotonic() - began:.0f} seconds")


def translate_with_kills(run: Run, cluster: Optional[RayCluster]) -> None:
    """Translate with disturbances until the output is complete."""
    watch = Watch(run)
    schedule = events(run)
    while not run.killed.exists():
        # A different seed for each start, reproducible if this program is restarted.
        draw = random.Random(f"{run.args.seed} {sum(run.state['starts'].values())}")
        on_cluster = cluster is not None and draw.random() < ON_CLUSTER
        process = run.start(run.killed, cluster.address if on_cluster else None)
        expected = {0}
        while process.poll() is None:
            time.sleep(BETWEEN_LOOKS)
            n_done = watch.look()
            n_past = len(run.state["events"])
            if n_past < len(schedule) and n_done >= schedule[n_past][0]:
                time.sleep(draw.random())
                if process.poll() is not None or run.killed.exists():
                    continue  # too late: the output is complete
                kind = schedule[n_past][1]
                told = do_event(run, kind, process, cluster if on_cluster else None, draw)
                expected |= EXIT_CODES[kind]
                run.state["events"].append(told)
                run.save()
                run.log(f"chunk {n_done} of {run.n_chunks}: {told}")
        watch.look()
        if process.returncode not in expected:
            raise Failure(f"exit code {process.returncode}; see told.txt")


def events(run: Run) -> list[tuple[int, str]]:
    """The schedule of events: the number of chunks and the kind of each."""
    draw = random.Random(run.args.seed)
    kinds = [KILL] * run.args.kills
    for kind in (DAMAGE, FILL_DISK):
        kinds.insert(draw.randrange(1, len(kinds)) if len(kinds) > 1 else 1, kind)
    goals = sorted(draw.randint(1, max(1, run.n_chunks * 95 // 100)) for _ in kinds)
    return list(zip(goals, kinds))


def do_event(
    run: Run,
    kind: str,
    process: subprocess.Popen,
    cluster: Optional[RayCluster],
    draw: random.Random,
) -> str:
    """Cause an event, and return its description."""
    if kind == DAMAGE:
        damaged = damage(parts_of(run.killed), draw)
        return f"{DAMAGE} of {damaged.name}"
    if kind == FILL_DISK:
        for pid in (process.pid, *children_of(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL, FULL))
        return FILL_DISK
    victims: dict[str, Callable[[], Any]] = {"coordinator": process.kill}
    if cluster is not None:
        victims["node"] = cluster.replace_node
    elif workers := children_of(process.pid):
        victims["worker"] = lambda: os.kill(draw.choice(workers), signal.SIGKILL)
    name = draw.choice(sorted(victims))
    with contextlib.suppress(ProcessLookupError):
        victims[name]()
    return f"{KILL} of a {name}"


def damage(directory: Path, draw: random.Random) -> Path:
    """Change a byte of a chunk."""
    path = draw.choice(sorted(chunks_in(directory)))
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1
    # In place: a new file would count as translated again.
    with open(path, "rb+") as file:
        file.write(content)
    return path


class Watch:
    """Detects chunks that are written, and chunks that are written again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._directory = parts_of(run.killed)
        self._seen: dict[str, int] = dict(self._files())

    def look(self) -> int:
        """Return the number of chunks, and count those that were written again."""
        n_chunks = 0
        for name, file in self._files():
            n_chunks += 1
            if self._seen.setdefault(name, file) != file:
                self._seen[name] = file
                self._run.state["done twice"] += 1
                self._run.save()
                self._run.log(f"{name} was translated again")
        return n_chunks

    def _files(self) -> Iterator[tuple[str, int]]:
        """The names of chunks and their inodes, which change if they are written again."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name.endswith(CHUNK):
                    yield entry.name, entry.inode()


class MemoryLog:
    """Logs memory over time: of the coordinator, of the largest worker, and in total."""

    COLUMNS = ("seconds", "chunks", "coordinator", "worker", "all")

    def __init__(self, path: Path) -> None:
        """
        Args:
            path: the file, to which lines are appended: MiB, and seconds since the start.
        """
        self._path = path
        self._began = time.monotonic()
        self._last = -BETWEEN_MEASUREMENTS

    def note(self, pid: int, n_chunks: int) -> None:
        """Measure, but not more often than every few seconds."""
        now = time.monotonic()
        if now - self._last < BETWEEN_MEASUREMENTS:
            return
        self._last = now
        workers = [memory_of(worker) for worker in children_of(pid)]
        own = memory_of(pid)
        if not workers or not n_chunks:
            return
        together = own["Pss"] + sum(worker["Pss"] for worker in workers)
        row = (now - self._began, n_chunks, own["Rss"], max(w["Rss"] for w in workers), together)
        with open(self._path, "a", encoding="ascii") as file:
            file.write("\t".join(f"{value:.0f}" for value in row) + "\n")


def memory_of(pid: int) -> dict[str, float]:
    """The memory of a process in MiB: ``Rss``, and ``Pss``, with its share of shared memory."""
    found = {"Rss": 0.0, "Pss": 0.0}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) / 1024
    return found


def children_of(pid: int) -> list[int]:
    """The child processes of a process."""
    with contextlib.suppress(OSError):
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def command_line_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def parts_of(output: Path) -> Path:
    """The directory of an output's chunks."""
    return output.with_name(f"{output.name}.parts")


def chunks_in(directory: Path) -> Iterator[Path]:
    """The files of the chunks in a directory."""
    return directory.glob(f"*{CHUNK}")


def report(run: Run) -> str:
    """The result as JSON text, which is also written to ``result.json``."""
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (run.alone, run.killed)]
    happened = [event.split(" of chunk")[0] for event in run.state["events"]]
    n_kills = sum(event.startswith(KILL) for event in happened)
    result = {
        "lines": run.args.lines,
        "chunks": run.n_chunks,
        "same output": digests[0] == digests[1],
        "sha256": digests,
        "starts": run.state["starts"],
        "kills": {
            kind: sum(event == f"{KILL} of a {kind}" for event in happened)
            for kind in ("worker", "coordinator", "node")
        },
        "damaged chunks": sum(event.startswith(DAMAGE) for event in happened),
        "full disks": happened.count(FILL_DISK),
        "chunks done twice": run.state["done twice"],
        "MiB in the first and the last tenth": memory_at_ends(run.args.workdir / "memory.tsv"),
    }
    write_figures(run.args.workdir / "result.json", result)
    if not result["same output"]:
        raise Failure("the outputs differ")
    if result["chunks done twice"] > n_kills + result["damaged chunks"]:
        raise Failure("more chunks were translated again than there were kills and damaged chunks")
    return json.dumps(result, indent=1)


def memory_at_ends(path: Path) -> dict[str, list[float]]:
    """The mean memory during the first and the last tenth of the chunks."""
    if not path.exists():
        return {}
    rows = [[float(word) for word in line.split()] for line in path.read_text().splitlines()]
    most = max(row[1] for row in rows)
    first = [row for row in rows if row[1] <= most / 10] or rows[:1]
    last = [row for row in rows if row[1] >= most * 9 / 10]
    return {
        name: [round(statistics.fmean(row[place] for row in of), 1) for of in (first, last)]
        for place, name in enumerate(MemoryLog.COLUMNS)
        if place > 1
    }


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"kills.py: {failure}")
