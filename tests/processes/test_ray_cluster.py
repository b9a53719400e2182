"""Connections to Ray clusters, and the errors if there is none."""

import socket
import sys

import pytest

from fairseq_fastdec.processes import ray_cluster
from tests.support.pretended_cluster import PretendedRay


@pytest.fixture
def refusing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", PretendedRay(refuses=True))


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"--ray: .* pip install 'fastdec-runtime\[cluster\]'"):
        ray_cluster.connected(ray_cluster.AUTO, "--ray", "serve")


def test_a_cluster_that_refuses(refusing, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ValueError, match="--ray: no cluster answers .Could not .* ray start"):
        ray_cluster.connected(ray_cluster.AUTO, "--ray", "serve")


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "[::1]:{}"])
def test_an_address_where_nothing_listens(refusing, monkeypatch, form):
    """Ray would go on trying for minutes."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = form.format(unused.getsockname()[1])
    with pytest.raises(ValueError, match=r"--cluster x: no cluster answers \(.*:\d+: "):
        ray_cluster.connected(address, "--cluster x", "client")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ValueError, match=r"--ray: no cluster answers \(.*:\d+: "):
        ray_cluster.connected(ray_cluster.AUTO, "--ray", "serve")


def test_an_address_that_answers(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", PretendedRay())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert ray_cluster.connected(address, "--ray", "serve") is sys.modules["ray"]
