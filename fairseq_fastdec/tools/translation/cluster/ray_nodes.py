"""A cluster of Ray: an actor on each node, and files that travel there once.

Ray is asked for here and nowhere else. Its object store brings each file to a node once, however
many workers and actors there are in the course of a run.
"""

import contextlib
import logging
import signal
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from ...command_line import version
from ..chunks import Chunk, ChunkStore
from ..output_lines import OutputRules
from .baggage import baggage_of, pieces_of
from .node import Job, Machine
from .pool import ClusterPool, MachineLost, Node

# Seconds that actors have to end their workers and to remove their files.
PATIENCE = 15


def start_on_cluster(
    address: str,
    cfg: Any,
    rules: OutputRules,
    n_workers: Optional[int],
    n_threads: int,
    store: Optional[ChunkStore],
) -> ClusterPool:
    """Have the machines of a cluster translate.

    Args:
        address: ``ray``, or ``ray://HOST:PORT``.
        cfg: the configuration of fairseq-generate's command line.
        n_workers: on each machine; ``None`` for one for each of its GPUs, or for as many as its
            processors allow.
        n_threads: of each worker.
        store: where this process writes the chunks that come back; see
            :class:`~.pool.ClusterPool`.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if Ray is not installed, or there is no such cluster.
    """
    job = Job(cfg, rules, baggage_of(cfg), n_workers or 0, n_threads, version())
    return ClusterPool(RayNodes(address, job), store)


class RayNodes:
    """The nodes of a Ray cluster, as :class:`.pool.Cluster` has them."""

    def __init__(self, address: str, job: Job) -> None:
        """
        Args:
            job: of each machine; its number of workers is 0 where each machine has as many as it
                can.

        Raises:
            OSError: if a file cannot be read.
            ValueError: if Ray is not installed, or there is no such cluster.
        """
        self._ray = _ray()
        self._job = job
        self._connect(address)
        try:
            self._files = {
                place: [self._ray.put(piece) for piece in pieces_of(file)]
                for place, file in job.baggage.files.items()
            }
        except BaseException:
            self._ray.shutdown()
            raise
        self._actors: list[Any] = []

    def nodes(self) -> list[Node]:
        """See :class:`.pool.Cluster`."""
        nodes = [
            Node(
                node["NodeID"],
                f"{node['NodeManagerHostname']} ({node['NodeID'][:6]})",
                int(node["Resources"].get("CPU", 0)),
                int(node["Resources"].get("GPU", 0)),
            )
            for node in self._ray.nodes()
            if node["Alive"]
        ]
        return [node for node in nodes if self._n_workers(node)]

    def start(self, node: Node) -> tuple[Any, Any]:
        """See :class:`.pool.Cluster`."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        job = self._job._replace(n_workers=self._n_workers(node))
        actor = self._ray.remote(Machine).options(
            num_cpus=min(node.n_cpus, job.n_workers * job.n_threads),
            num_gpus=self._n_gpus(node),
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        actor = actor.remote(self._ray.get)
        self._actors.append(actor)
        return actor, actor.start.remote(job, self._files)

    def exchange(self, machine: Any, chunks: list[Chunk]) -> Any:
        """See :class:`.pool.Cluster`."""
        return machine.exchange.remote(chunks)

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        """See :class:`.pool.Cluster`."""
        first, others = self._ray.wait(list(calls), timeout=seconds, fetch_local=False)
        if not first or not others:
            return first
        # The others that have been answered, too: nobody waits for them.
        return (
            first + self._ray.wait(others, num_returns=len(others), timeout=0, fetch_local=False)[0]
        )

    def result(self, call: Any) -> Any:
        """See :class:`.pool.Cluster`."""
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            raise MachineLost(_in_short(error)) from error

    def release(self, machine: Any) -> None:
        """See :class:`.pool.Cluster`."""
        self._actors.remove(machine)
        self._ray.kill(machine)

    def close(self) -> None:
        """See :class:`.pool.Cluster`."""
        try:
            closing = [actor.close.remote() for actor in self._actors]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=PATIENCE)
        finally:
            self._ray.shutdown()

    def _n_gpus(self, node: Node) -> int:
        return 0 if self._job.cfg.common.cpu else node.n_gpus

    def _n_workers(self, node: Node) -> int:
        """The workers of a node: at least one where it has any processor for us."""
        if node.n_cpus < 1:
            return 0
        return (
            self._job.n_workers or self._n_gpus(node) or max(1, node.n_cpus // self._job.n_threads)
        )

    def _connect(self, address: str) -> None:
        with _same_signals():
            try:
                self._ray.init(
                    address="auto" if address == "ray" else address,
                    # What programs print there would get into standard output here.
                    log_to_driver=False,
                    logging_level=logging.WARNING,
                )
            except (ConnectionError, RuntimeError) as error:
                raise ValueError(
                    f"--cluster {address}: no cluster answers ({_in_short(error)}); start one with "
                    "ray start --head, or name it: --cluster ray://HOST:10001"
                ) from error


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "--cluster: the package ray is not installed: pip install 'fairseq_fastdec[cluster]' "
            "(or pip install 'ray[client]')"
        ) from error
    return ray


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Within, what becomes of SIGTERM may change; afterwards it is as before."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)


def _in_short(error: BaseException) -> str:
    """The first sentence of an error that may have many lines."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
