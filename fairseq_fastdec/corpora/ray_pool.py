"""Translates chunks on the machines of a Ray cluster, which may join and leave.

Ray's object store transfers each file to a machine once. Chunks are passed as arguments and results
of calls, so that the machines need no common file system.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from ..processes import ray_cluster
from ..processes.errors import first_line
from ..translating.command_line import version
from .chunks import Chunk
from .model import CorpusModel
from .output_lines import OutputRules
from .pool import MOST_DEATHS, ChunkPool, ChunkResult
from .ray_node import Machine, NodeJob
from .worker import Progress

logger = logging.getLogger(__name__)

# Seconds between searches for new machines.
BETWEEN_LOOKS = 2.0
# Seconds without a machine before a warning.
TO_WARN = 30.0
# Seconds for actors to end their workers and remove their files.
PATIENCE = 15
# The number of bytes of a file that are in memory at once.
PIECE = 1 << 26


class NoMachine(ValueError):
    """No machine of the cluster can be used."""


@dataclass
class _Machine:
    """A node of the cluster, its actor, and the number of free workers.

    Attributes:
        id: unique, also among machines that have left the cluster.
    """

    id: str
    name: str
    actor: Any
    n_workers: int = 0
    n_free: int = 0


class RayPool(ChunkPool):
    """The workers of all machines of a cluster."""

    def __init__(
        self, ray: Any, job: NodeJob, files: dict[str, list[Any]], progress: Progress
    ) -> None:
        """
        Args:
            ray: the module, connected to a cluster.
            job: the job of each machine; 0 workers stands for as many as the machine allows.
            files: Ray's references to the pieces of each file, by its relative path.
        """
        super().__init__(progress)
        self._ray, self._job, self._files = ray, job, files
        self._machines: dict[str, _Machine] = {}
        self._calls: dict[Any, tuple[_Machine, Optional[Chunk]]] = {}
        self._waiting: deque[Chunk] = deque()
        self._left_out: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._last_look = -BETWEEN_LOOKS
        self._alone_since: Optional[float] = time.monotonic()

    def __exit__(self, *_: Any) -> None:
        try:
            closing = [machine.actor.close.remote() for machine in self._machines.values()]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=PATIENCE)
        finally:
            self._ray.shutdown()

    @property
    def has_room(self) -> bool:
        return sum(machine.n_free for machine in self._machines.values()) > len(self._waiting)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting) or any(chunk for _, chunk in self._calls.values())

    def submit(self, chunk: Chunk) -> None:
        self._waiting.append(chunk)
        self._send()

    def results(self, seconds: Optional[float] = None) -> list[ChunkResult]:
        """See :class:`~.pool.ChunkPool`.

        Raises:
            NoMachine: if there are machines but none can be used.
        """
        seconds = BETWEEN_LOOKS if seconds is None else seconds
        self._look_for_machines()
        self._send()
        if not self._calls:
            time.sleep(min(seconds, BETWEEN_LOOKS))
            return []
        calls = list(self._calls)
        ended, others = self._ray.wait(calls, timeout=seconds, fetch_local=False)
        if ended and others:
            # Also collect all other calls that have ended.
            more, _ = self._ray.wait(others, num_returns=len(others), timeout=0, fetch_local=False)
            ended += more
        return [pair for call in ended for pair in self._received(call)]

    def _send(self) -> None:
        while self._waiting and (
            machine := max(self._machines.values(), key=lambda own: own.n_free, default=None)
        ):
            if machine.n_free < 1:
                return
            chunk = self._waiting.popleft()
            machine.n_free -= 1
            self._calls[machine.actor.translate.remote(chunk)] = machine, chunk

    def _received(self, call: Any) -> list[ChunkResult]:
        if call not in self._calls:  # belongs to a machine that was just lost
            return []
        machine, chunk = self._calls.pop(call)
        try:
            answer = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            return self._lost(machine, chunk, first_line(error))
        if chunk is None:
            if isinstance(answer, str):
                self._leave_out(machine, answer)
            else:
                machine.n_workers = machine.n_free = answer
            return []
        machine.n_free += 1
        if not isinstance(answer, Exception):
            self._progress(chunk.n_lines)
        return [(chunk, answer)]

    def _lost(self, machine: _Machine, chunk: Optional[Chunk], reason: str) -> list[ChunkResult]:
        """Remove a machine; its chunks are translated by others."""
        name = machine.name
        calls = [call for call, (own, _) in self._calls.items() if own is machine]
        chunks = [own for own in (chunk, *(self._calls.pop(call)[1] for call in calls)) if own]
        if not machine.n_workers:
            self._failures[machine.id] += 1
            if self._failures[machine.id] >= MOST_DEATHS:
                self._leave_out(machine, reason)
                return []
        self._remove(machine)
        logger.warning("%s is lost (%s); %d chunks again", name, reason, len(chunks))
        self._waiting.extendleft(reversed(chunks))
        errors = [(own, self._death(own, f"the last one with {name}")) for own in chunks]
        return [(own, error) for own, error in errors if error is not None]

    def _look_for_machines(self) -> None:
        now = time.monotonic()
        if now - self._last_look < BETWEEN_LOOKS:
            return
        self._last_look = now
        nodes = {
            node["NodeID"]: node
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        }
        for id in nodes.keys() - self._machines.keys() - self._left_out.keys():
            self._start(nodes[id])
        if nodes and nodes.keys() <= self._left_out.keys():
            reason = self._left_out[next(iter(nodes))]
            raise NoMachine(f"--cluster: no machine can be used; {reason}")
        if any(machine.n_workers for machine in self._machines.values()):
            self._alone_since = now
        elif self._alone_since is not None and now - self._alone_since > TO_WARN:
            self._alone_since = None
            logger.warning(
                "the cluster has no machine with resources for a worker; waiting for one"
            )

    def _start(self, node: dict[str, Any]) -> None:
        n_cpus, n_gpus = (int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
        n_gpus = n_gpus if self._job.model.may_use_gpus else 0
        n_workers = self._job.n_workers or n_gpus or max(1, n_cpus // self._job.n_threads)
        id = node["NodeID"]
        name = f"{node['NodeManagerHostname']} ({id[:6]})"
        actor = self._actor(id, n_workers, min(n_cpus, n_workers * self._job.n_threads), n_gpus)
        machine = self._machines[id] = _Machine(id, name, actor)
        job = self._job._replace(n_workers=n_workers)
        self._calls[actor.start.remote(job, self._files)] = machine, None

    def _actor(self, node: str, n_workers: int, n_cpus: int, n_gpus: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._ray.remote(Machine).options(
            num_cpus=n_cpus,
            num_gpus=n_gpus,
            max_restarts=0,
            # Calls block until their chunks are done; close() needs one more thread.
            max_concurrency=n_workers + 1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return actor.remote(self._ray.get)

    def _leave_out(self, machine: _Machine, reason: str) -> None:
        self._remove(machine)
        self._left_out[machine.id] = f"{machine.name}: {reason}"
        logger.warning("%s is not used: %s", machine.name, reason)

    def _remove(self, machine: _Machine) -> None:
        del self._machines[machine.id]
        self._ray.kill(machine.actor)


def start_on_cluster(
    address: str,
    model: CorpusModel,
    rules: OutputRules,
    n_workers: Optional[int],
    n_threads: int,
    progress: Progress,
) -> RayPool:
    """Connect to a cluster and start its machines.

    Args:
        address: ``ray``, or ``ray://HOST:PORT``.
        n_workers: on each machine; ``None`` for one per GPU, or as many as its processors allow.
        n_threads: of each worker.
        progress: see :class:`~.pool.ChunkPool`.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if Ray is not installed, or there is no such cluster.
    """
    of_cluster = ray_cluster.AUTO if address == "ray" else address
    ray = ray_cluster.connected(of_cluster, f"--cluster {address}", "client")
    try:
        own, files = model.portable()
        pieces = {place: [ray.put(piece) for piece in pieces_of(files[place])] for place in files}
    except BaseException:
        ray.shutdown()
        raise
    return RayPool(ray, NodeJob(own, rules, n_workers or 0, n_threads, version()), pieces, progress)


def pieces_of(path: str) -> Iterator[np.ndarray]:
    """The bytes of a file, as arrays of at most 64 MiB.

    Raises:
        OSError: if it cannot be read.
    """
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield np.frombuffer(piece, dtype=np.uint8)
