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
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, NamedTuple, Optional, Union

from ..engine.kernels import loading
from ..engine.searches import Output, Recipe, SourceSentence, results_of
from ..processes import cores
from .errors import QueueFull
from .generation_options import COUNT, PLUS, ValidRange, shown

POLICIES = ("fcfs", "shortest")
# The number of sentences that a thread decodes together.
CAPACITY = 32
# With the policy ``shortest``, a sentence that has waited longer than this comes next. In seconds.
LONGEST_WAIT = 2.0
# The valid values of the numbers in :class:`SchedulerOptions`.
VALID = {
    "threads": COUNT,
    "batch_size": COUNT,
    "max_queue": COUNT,
    "max_wait_ms": ValidRange(Real, 0, PLUS, "a number of at least 0"),
}

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
        ValueError: for an invalid number, or an unknown policy.
    """

    threads: Optional[int] = None
    batch_size: int = CAPACITY
    max_queue: Optional[int] = None
    max_wait_ms: float = 0.0
    policy: str = "fcfs"

    def __post_init__(self) -> None:
        for option in fields(self):
            value, valid = getattr(self, option.name), VALID.get(option.name)
            if valid is not None and value != option.default and not valid.has(value):
                raise ValueError(f"{option.name} {shown(value)}: must be {valid.reason}")
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy}: unknown; choose from {', '.join(POLICIES)}")


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of :class:`SchedulerOptions` and the others."""
    names = {field.name for field in fields(SchedulerOptions)}
    scheduling = {name: value for name, value in options.items() if name in names}
    return scheduling, {name: value for name, value in options.items() if name not in names}


class Mailbox:
    """Receives the outputs of the sentences that one thread submits.

    Its file descriptor is readable while there are some, so an event loop can watch it.
    """

    def __init__(self) -> None:
        self._awaited: dict[int, _Awaited] = {}
        self._engine: Any = None
        self._process = os.getpid()

    @property
    def engine(self) -> Any:
        """The ``_engine.Mailbox``.

        Raises:
            RuntimeError: if the process has no file descriptors left, or in a forked process, which
                has none of its parent's threads.
        """
        if self._process != os.getpid():
            raise RuntimeError(
                "the sentences belong to the process that this one was forked from; translate them "
                "with a new call"
            )
        if self._engine is None:
            self._engine = loading.library().Mailbox()
        return self._engine

    def __len__(self) -> int:
        """The number of sentences whose outputs have not been received."""
        return len(self._awaited)

    def fileno(self) -> int:
        """The file descriptor."""
        return self.engine.fileno()

    def receive(self) -> None:
        """Wait for at least one sentence, and call ``done`` for all that have finished."""
        os.read(self.fileno(), 1)
        for result in results_of(self.engine.take()):
            # The sentence may have been cancelled in the meantime.
            awaited = self._awaited.pop(result.id, None)
            if awaited is not None:
                failed = RuntimeError(result.error) if result.error else None
                awaited.done(failed or awaited.recipe.ranked(result))

    def cancel(self, number: int) -> None:
        """Drop a sentence that waits or is being decoded; its ``done`` is not called."""
        awaited = self._awaited.pop(number, None)
        # In a forked process, a thread of the parent may hold the service's lock forever.
        if awaited is not None and self._process == os.getpid():
            awaited.service.cancel(number)

    def cancel_all(self) -> None:
        """Drop all sentences that wait or are being decoded."""
        for number in list(self._awaited):
            self.cancel(number)


class _Awaited(NamedTuple):
    service: Any
    recipe: Recipe
    done: Callback


class Scheduler:
    """Decodes sentences in the engine's threads. Methods are thread-safe."""

    def __init__(self, options: SchedulerOptions) -> None:
        """
        Raises:
            OSError: if the system cannot start that many threads.
        """
        n_cores = cores.n_usable(cores.usable_cores())
        n_threads = n_cores if options.threads is None else options.threads
        self._most_waiting = options.max_queue
        try:
            self._service = loading.library().Service(
                workers=loading.bounded(n_threads),
                capacity=loading.bounded(options.batch_size),
                threads=loading.measured(n_cores),
                max_wait=options.max_wait_ms / 1000,
                takes_shortest=options.policy == "shortest",
                longest_wait=LONGEST_WAIT,
            )
        except (MemoryError, RuntimeError, ValueError) as error:
            raise OSError(f"threads {n_threads}: cannot be started ({error}); use fewer") from error
        self.process = os.getpid()
        self._is_open = True
        _OPEN.add(self)

    def submit(
        self,
        recipe: Recipe,
        sentence: SourceSentence,
        mailbox: Mailbox,
        done: Callback,
        is_bounded: bool = False,
    ) -> int:
        """Add a sentence to the queue.

        Args:
            mailbox: the mailbox of the calling thread.
            done: called by :meth:`Mailbox.receive` with the outputs, best first, or with an error.
            is_bounded: whether ``max_queue`` applies.

        Returns:
            the number that :meth:`Mailbox.cancel` takes

        Raises:
            QueueFull: if ``max_queue`` sentences wait.
            IndexError: for tokens that are not in the dictionary.
            ValueError: if --min-len exceeds the maximum length.
            RuntimeError: after :meth:`close`.
        """
        if not self._is_open:
            raise RuntimeError("the translator is closed")
        number = next(_NUMBERS)
        most = self._most_waiting if is_bounded else None
        is_taken = recipe.admit(
            recipe.search,
            number,
            sentence,
            service=self._service,
            mailbox=mailbox.engine,
            most_waiting=loading.bounded(most),
        )
        if not is_taken:
            raise QueueFull(f"{most} sentences are waiting already")
        # Only this thread receives, so the sentence cannot have been received before.
        mailbox._awaited[number] = _Awaited(self._service, recipe, done)
        return number

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


# Numbers of sentences, of all schedulers, since a mailbox can be used with several.
_NUMBERS = itertools.count()
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


os.register_at_fork(after_in_child=_forget_all)
