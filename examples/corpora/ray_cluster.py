"""A Ray cluster of several nodes on this machine, for programs that kill its nodes."""

import os
from typing import Any

from examples.common import commands

# The nodes are not reachable from outside this machine.
LOCAL = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}
N_NODES = 3


class RayCluster:
    """A head without processors, and nodes with one each. A context manager that ends them on exit.

    Attributes:
        address: for RAY_ADDRESS.
        client_address: for clients outside the cluster: ``ray://HOST:PORT``.
    """

    def __init__(self, n_nodes: int = N_NODES) -> None:
        """
        Raises:
            ImportError: if Ray is not installed (``pip install -e ".[cluster]"``).
        """
        # Use the local address; by default Ray uses the address in the network.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        # Do not lower the priority of Ray's workers.
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's name)
        from ray.cluster_utils import Cluster

        # Make the package importable in the nodes' processes.
        places = [str(commands.ROOT), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
        port = commands.free_port()
        head = {**LOCAL, "num_cpus": 0, "include_dashboard": False, "ray_client_server_port": port}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self._cluster.address
        self.client_address = f"ray://{LOCAL['node_ip_address']}:{port}"
        self._nodes: list[Any] = []
        for _ in range(n_nodes):
            self.add_node()

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(self, *_: Any) -> None:
        self._cluster.shutdown()

    def add_node(self) -> None:
        """Start a node."""
        self._nodes.append(self._cluster.add_node(num_cpus=1, **LOCAL))

    def kill_node(self) -> None:
        """Kill the oldest node and all its processes."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def replace_node(self) -> None:
        """Kill the oldest node, and start another one."""
        self.kill_node()
        self.add_node()
