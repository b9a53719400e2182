"""Decodes sentences that arrive one by one in running batches: refilling (Yang et al. 2020).

The engine's threads decode, each with its batches, over one copy of the weights
(``engine/cpp/service.h``). The other sentences of a batch affect the time of a result, but not the
result. The policy minimises the longest wait (``fcfs``: first come, first served) or the mean wait
(``shortest``: fewest tokens first, as in the paper).
"""

import atexit
import ctypes
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Optional, Union

import numpy as np

from .. import cores
from ..engine.kernels import loading
from ..engine.searches import Output, Recipe, hypotheses_of
from .errors import QueueFull

POLICIES = ("fcfs", "shortest")
# The number of sentences that a thread decodes together.
CAPACITY = 32
# With the policy ``shortest``, a sentence that has waited longer than this comes next. In seconds.
LONGEST_WAIT = 2.0

SearchOutcome = Union[list[Output], Exception]
Callback = Callable[[SearchOutcome], None]


@dataclass(frozen=True)
class SchedulerOptions:
    """The threads, the batches and the queue of a scheduler.

    Attributes:
        threads: the number of decoding threads, each with its batches (default: the number of
            usable cores).
        batch_size: the maximum number of sentences that a thread decodes together.
        max_queue: the maximum number of sentences that wait; ``None`` for no limit.
        max_wait_ms: how long a sentence may wait for others while more than half of a batch is in
            use, so that several begin together.
        policy: which sentence begins next: ``"fcfs"``, first come, first served, minimises the
            longest wait; ``"shortest"``, fewest tokens first, minimises the mean wait.

    Raises:
        ValueError: for a number that is too small, or an unknown policy.
    """

    threads: Optional[int] = None
    batch_size: int = CAPACITY
    max_queue: Optional[int] = None
    max_wait_ms: float = 0.0
    policy: str = "fcfs"

    def __post_init__(self) -> None:
        counts = (self.threads, self.batch_size, self.max_queue)
        if min(n for n in counts if n is not None) < 1 or not self.max_wait_ms >= 0:
            raise ValueError("threads, batch_size, max_queue: at least 1; max_wait_ms: at least 0")
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy}: unknown; choose from {', '.join(POLICIES)}")


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of :class:`SchedulerOptions` and the others."""
    names = {field.name for field in fields(SchedulerOptions)}
    scheduling = {name: value for name, value in options.items() if name in names}
    return scheduling, {name: value for name, value in options.items() if name not in names}


class Scheduler:
    """Decodes sentences in the engine's threads. Methods are thread-safe."""

    def __init__(self, options: SchedulerOptions) -> None:
        n_cores = cores.n_usable(cores.usable_cores())
        self._most_waiting = options.max_queue
        self._service = loading.library().Service(
            workers=n_cores if options.threads is None else options.threads,
            capacity=options.batch_size,
            threads=loading.measured(n_cores),
            max_wait=options.max_wait_ms / 1000,
            takes_shortest=options.policy == "shortest",
            longest_wait=LONGEST_WAIT,
        )
        self.process = os.getpid()
        self._ids = itertools.count()
        self._under_way: dict[int, tuple[Recipe, Callback]] = {}
        self._is_open = True
        collector = threading.Thread(target=self._collect, name="fastdec-collector", daemon=True)
        collector.start()
        self._collector = collector
        _OPEN.add(self)

    def submit(
        self,
        recipe: Recipe,
        tokens: np.ndarray,
        done: Callback,
        is_bounded: bool = False,
        draft: Optional[np.ndarray] = None,
    ) -> int:
        """Add a sentence to the queue.

        Args:
            tokens: the source tokens, int64 ``[n]`` with EOS.
            done: called in another thread with the outputs, best first, or with an error; it must
                not block.
            is_bounded: whether ``max_queue`` applies.
            draft: tokens of earlier translations, int64 ``[D]``.

        Returns:
            the number that :meth:`cancel` takes

        Raises:
            QueueFull: if ``max_queue`` sentences wait.
            IndexError: for tokens that are not in the dictionary.
            ValueError: if --min-len exceeds the maximum length.
            RuntimeError: after :meth:`close`.
        """
        number = next(self._ids)
        most = self._most_waiting if is_bounded else None
        self._under_way[number] = recipe, done
        is_taken = False
        try:
            if not self._is_open:
                raise RuntimeError("the translator is closed")
            is_taken = self._service.submit(
                recipe.search,
                number,
                tokens[None],
                recipe.bos,
                recipe.rules.max_len(len(tokens)),
                recipe.forced,
                draft,
                loading.bounded(most),
            )
            if not is_taken:
                raise QueueFull(f"{most} sentences are waiting already")
        finally:
            if not is_taken:
                self._under_way.pop(number, None)
        return number

    def cancel(self, number: int) -> None:
        """Drop a sentence that waits or is being decoded; its ``done`` is not called."""
        if self._under_way.pop(number, None) is not None:
            self._service.cancel(number)

    def queued(self) -> tuple[int, int]:
        """The numbers of sentences that wait and that are being decoded."""
        return self._service.queued()

    def close(self) -> None:
        """Decode all submitted sentences, and stop the threads."""
        if self.process != os.getpid():
            return
        self._is_open = False
        _OPEN.discard(self)
        self._service.close()
        self._collector.join()

    def _collect(self) -> None:
        """Call ``done`` as sentences finish."""
        while True:
            collected = self._service.collect()
            if not collected.ids:
                return
            for number, error, found in hypotheses_of(collected):
                # The sentence may have been cancelled in the meantime.
                recipe, done = self._under_way.pop(number, (None, None))
                if recipe is not None and done is not None:
                    done(RuntimeError(error) if error else recipe.outputs(found))


# Schedulers with running threads, which must stop before the interpreter exits.
_OPEN: "weakref.WeakSet[Scheduler]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for scheduler in list(_OPEN):
        scheduler.close()


def _forget_all() -> None:
    """Drop schedulers in a forked process: it has no threads, and joining them would hang."""
    for scheduler in list(_OPEN):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(scheduler._service))
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
