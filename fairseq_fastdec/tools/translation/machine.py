"""The workers that this machine gets: how many, where each computes, and what they share."""

import gc
import os
from collections.abc import Callable
from typing import Any, Optional

import torch

from ... import cores
from ..corpus import uses_cuda
from .chunks import ChunkStore
from .pool import Pool
from .worker import ChunkTranslator, Place


def limit_batches(cfg: Any) -> None:
    """Say how much is decoded at once on this machine, where the command line does not.

    Each worker needs memory for as many source tokens. They are enough for one line of any length
    that is allowed.
    """
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        least = 12000 if uses_cuda(cfg) else 1024
        longest = getattr(cfg.task, "max_source_positions", None) or 0
        cfg.dataset.max_tokens = max(least, longest)


def start_workers(
    load: Callable[[], ChunkTranslator],
    on_gpus: bool,
    n_workers: Optional[int],
    n_threads: int,
    store: Optional[ChunkStore],
) -> Pool:
    """Start the workers of this machine.

    On a CPU this process loads the models and prepares the weights; workers are forked from it, so
    that what is in memory then is there once. A GPU's workers load for themselves.

    Args:
        load: gives what translates; where workers load for themselves, it travels to them.
        n_workers: ``None`` for one for each GPU, or for as many as the cores allow.
        n_threads: of each worker.
        store: see :class:`~.pool.Pool`.

    Raises:
        OSError, ValueError: if the models cannot be loaded.
    """
    places = (
        places_on_gpus(n_workers, n_threads) if on_gpus else places_on_cpu(n_workers, n_threads)
    )
    if on_gpus or not hasattr(os, "fork"):
        return Pool(places, load, store, forks=False)
    # A process that has computed in several threads must not be forked.
    torch.set_num_threads(1)
    translator = load()
    translator.prepare()
    # Python's collector would write to what the workers share.
    gc.collect()
    gc.freeze()
    return Pool(places, lambda: translator, store, forks=True)


def places_on_cpu(n_workers: Optional[int], n_threads: int) -> list[Place]:
    """Where each worker computes on this machine's processors."""
    n_workers = n_workers or max(1, cores.n_usable(cores.usable_cores()) // n_threads)
    return [
        Place(n_threads, cores.cores_of(worker, n_workers, n_threads))
        for worker in range(n_workers)
    ]


def places_on_gpus(n_workers: Optional[int], n_threads: int) -> list[Place]:
    """The same on its GPUs, which take turns where there are more workers."""
    n_devices = torch.cuda.device_count()
    return [Place(n_threads, None, worker % n_devices) for worker in range(n_workers or n_devices)]
