"""The machines of a cluster: each has chunks at a time, and whoever goes gives them back."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional, Protocol

from ..chunks import Chunk, ChunkStore, Translated
from ..pool import MOST_DEATHS, Lost, WorkersDie, told_of_deaths
from ..worker import Done, Failed, Progress
from .node import Started

logger = logging.getLogger(__name__)

# Seconds after which somebody looks whether machines have come.
BETWEEN_LOOKS = 2.0
# Seconds without a machine after which the user is told.
TO_WARN = 30.0


class Node(NamedTuple):
    """A machine of a cluster.

    Attributes:
        id: no other machine has it, nor will have it.
        name: by which people know the machine.
        n_cpus, n_gpus: what programs of the cluster may use there.
    """

    id: str
    name: str
    n_cpus: int
    n_gpus: int


class MachineLost(Exception):
    """The machine, or what runs there, has ended; the text says how."""


class NoMachine(ValueError):
    """No machine of the cluster can take part."""


class Cluster(Protocol):
    """The machines to which :class:`ClusterPool` speaks: each call gives something to wait for."""

    def nodes(self) -> list[Node]:
        """The machines that are there now and have room for a worker."""

    def start(self, node: Node) -> tuple[Any, Any]:
        """Start :class:`.node.Machine` on a node: what stands for it, and the first call."""

    def exchange(self, machine: Any, chunks: list[Chunk]) -> Any:
        """Call :meth:`.node.Machine.exchange`."""

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        """Wait for answers; the calls that have one, or none when the time is over."""

    def result(self, call: Any) -> Any:
        """The answer.

        Raises:
            MachineLost: where there is none and will be none.
        """

    def release(self, machine: Any) -> None:
        """End what runs on a machine."""

    def close(self) -> None:
        """End all."""


class ClusterPool:
    """For a :class:`~..coordinator.Coordinator` the same as :class:`~..pool.Pool`.

    Chunks come back with the messages, and are written here: machines need no common file system.
    """

    def __init__(self, cluster: Cluster, store: Optional[ChunkStore]) -> None:
        """
        Args:
            store: where chunks are written; ``None``: they go on with the message.
        """
        self._cluster = cluster
        self._store = store
        self._machines: dict[str, _Machine] = {}
        self._left_out: dict[str, str] = {}
        self._deaths: Counter = Counter()
        self._failures: Counter = Counter()
        self._last_look = -BETWEEN_LOOKS
        self._alone_since: Optional[float] = time.monotonic()

    def __enter__(self) -> "ClusterPool":
        return self

    def __exit__(self, *_: Any) -> None:
        self._cluster.close()

    @property
    def has_room(self) -> bool:
        """Whether a machine has a worker with nothing to do."""
        return any(machine.n_free > 0 for machine in self._machines.values())

    @property
    def is_busy(self) -> bool:
        """Whether a machine has a chunk."""
        return any(machine.chunks for machine in self._machines.values())

    def submit(self, chunk: Chunk) -> None:
        """Give a machine with room a chunk; it travels with the next :meth:`messages`."""
        machine = max(self._machines.values(), key=lambda machine: machine.n_free)
        machine.chunks[chunk.number] = chunk
        machine.to_send.append(chunk)

    def messages(self, seconds: Optional[float] = None) -> list[tuple[Chunk, Any]]:
        """Wait for something to happen.

        Args:
            seconds: how long at most (default: :data:`BETWEEN_LOOKS`).

        Returns:
            as :meth:`..pool.Pool.messages`; nothing where nothing has happened.

        Raises:
            NoMachine: if machines are there, and none can take part.
            WorkersDie: if workers die again and again.
        """
        seconds = BETWEEN_LOOKS if seconds is None else seconds
        self._look_for_machines()
        for machine in self._machines.values():
            if machine.call is None and machine.chunks:
                machine.call = self._cluster.exchange(machine.handle, machine.to_send)
                machine.to_send = []
        of_calls = {m.call: m for m in self._machines.values() if m.call is not None}
        if not of_calls:
            time.sleep(min(seconds, BETWEEN_LOOKS))
            return []
        found: list[tuple[Chunk, Any]] = []
        for call in self._cluster.wait(list(of_calls), seconds):
            found += self._received(of_calls[call])
        return found

    def _look_for_machines(self) -> None:
        now = time.monotonic()
        if now - self._last_look < BETWEEN_LOOKS:
            return
        self._last_look = now
        nodes = self._cluster.nodes()
        for node in nodes:
            if node.id not in self._machines and node.id not in self._left_out:
                self._machines[node.id] = _Machine(node, *self._cluster.start(node))
        if nodes and all(node.id in self._left_out for node in nodes):
            node = nodes[0]
            raise NoMachine(f"--cluster: no machine can take part; {self._left_out[node.id]}")
        self._warn_if_alone(now)

    def _warn_if_alone(self, now: float) -> None:
        if any(machine.n_workers for machine in self._machines.values()):
            self._alone_since = now
        elif self._alone_since is not None and now - self._alone_since > TO_WARN:
            self._alone_since = None
            logger.warning("the cluster has no machine with room for a worker; waiting for one")

    def _received(self, machine: "_Machine") -> list[tuple[Chunk, Any]]:
        call, machine.call = machine.call, None
        try:
            answer = self._cluster.result(call)
        except MachineLost as error:
            return self._lost(machine, str(error))
        if isinstance(answer, Started):
            machine.n_workers = answer.n_workers
            return []
        if isinstance(answer, Failed):
            self._leave_out(machine, answer.message)
            return []
        return [pair for told in answer for pair in self._heard(machine, *told)]

    def _heard(self, machine: "_Machine", number: int, message: Any) -> Iterator[tuple[Chunk, Any]]:
        if isinstance(message, WorkersDie):
            raise WorkersDie(f"{machine.node.name}: {message}")
        chunk = machine.chunks[number]
        if isinstance(message, Progress):
            machine.n_done[number] += message.n_lines
        else:
            machine.forget(number)
        if isinstance(message, Lost):
            logger.warning("%s: a worker ended; chunk %d again", machine.node.name, number)
            self._count_death(chunk, f"the last one on {machine.node.name}")
        yield chunk, self._kept(chunk, message) if isinstance(message, Done) else message

    def _kept(self, chunk: Chunk, done: Done) -> Any:
        """Write a chunk; the message for the coordinator."""
        if self._store is None:
            return done
        try:
            self._store.write(chunk, done.translated)
        except OSError as error:
            return Failed(str(error))
        return Done(Translated(b"", done.translated.counts))

    def _lost(self, machine: "_Machine", reason: str) -> list[tuple[Chunk, Any]]:
        """Forget a machine; its chunks are for others."""
        name = machine.node.name
        if not machine.n_workers:
            self._failures[machine.node.id] += 1
            if self._failures[machine.node.id] >= MOST_DEATHS:
                self._leave_out(machine, reason)
                return []
        self._remove(machine)
        logger.warning("%s is lost (%s); %d chunks again", name, reason, len(machine.chunks))
        found: list[tuple[Chunk, Any]] = []
        for number, chunk in machine.chunks.items():
            self._count_death(chunk, f"the last one with {name}")
            found += [(chunk, Progress(-machine.n_done[number])), (chunk, Lost())]
        return found

    def _leave_out(self, machine: "_Machine", reason: str) -> None:
        self._remove(machine)
        self._left_out[machine.node.id] = f"{machine.node.name}: {reason}"
        logger.warning("%s takes no part: %s", machine.node.name, reason)

    def _remove(self, machine: "_Machine") -> None:
        del self._machines[machine.node.id]
        self._cluster.release(machine.handle)

    def _count_death(self, chunk: Chunk, reason: str) -> None:
        self._deaths[chunk.number] += 1
        if self._deaths[chunk.number] >= MOST_DEATHS:
            raise WorkersDie(told_of_deaths(chunk, reason))


class _Machine:
    """A node, what runs there, and its chunks.

    Attributes:
        call: what it has been asked and has not answered.
        n_workers: 0 until it has started.
        chunks: that it has, by number, or that wait in ``to_send``.
        n_done: how many lines of each are done.
    """

    def __init__(self, node: Node, handle: Any, call: Any) -> None:
        self.node = node
        self.handle = handle
        self.call: Optional[Any] = call
        self.n_workers = 0
        self.chunks: dict[int, Chunk] = {}
        self.to_send: list[Chunk] = []
        self.n_done: Counter = Counter()

    @property
    def n_free(self) -> int:
        """The workers without a chunk."""
        return self.n_workers - len(self.chunks)

    def forget(self, number: int) -> None:
        """It does not have this chunk any more."""
        del self.chunks[number]
        del self.n_done[number]
