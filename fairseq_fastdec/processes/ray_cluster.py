"""Connects this process to a Ray cluster."""

import contextlib
import logging
import os
import signal
import socket
from typing import Any

from .errors import first_line

# The address of the cluster at ``RAY_ADDRESS`` or, without it, of this machine.
AUTO = "auto"
# Ray itself repeats its attempts for minutes.
SECONDS = 10.0


def connected(address: str, option: str, needed: str) -> Any:
    """Connect to a cluster, and return the module ``ray``.

    Args:
        address: :data:`AUTO`, ``HOST:PORT`` or ``ray://HOST:PORT``.
        option: the option of the command, which begins the errors.
        needed: the extra of Ray that the command needs.

    Raises:
        ValueError: if Ray is not installed, or if no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            f"{option}: the package ray is not installed: pip install 'fastdec-runtime[cluster]' "
            f"(or pip install 'ray[{needed}]')"
        ) from error
    before = signal.getsignal(signal.SIGTERM)
    try:
        _knock(os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address)
        # Workers would otherwise write to this process's standard output.
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"{option}: no cluster answers ({first_line(error)}); start one with ray start --head, "
            "or set RAY_ADDRESS to its address"
        ) from error
    finally:
        # Ray replaces the handler.
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)
    return ray


def _knock(address: str) -> None:
    """
    Raises:
        OSError: if there is no server at ``HOST:PORT`` or ``ray://HOST:PORT``.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
        except (OSError, OverflowError) as error:
            raise OSError(f"{address}: {error}") from error
