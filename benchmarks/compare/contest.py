"""The rounds: every method has separate processes, and one method decodes at a time."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from tqdm import tqdm

from . import worker
from .measurement import Round, peak_memory, together
from .methods import Division, Method, Settings
from .processes import in_team, new_team

logger = logging.getLogger(__name__)

# Errors whose messages are clear without the name of the exception.
EXPLAINED = (ImportError, OSError, ValueError)


class MethodError(Exception):
    """A method has failed; the message gives the reason."""


class Contender:
    """A method with one division of the threads, and its processes.

    Attributes:
        beam_width: the beam size; 1 for methods with one hypothesis.
        memory_before: MiB used by the first process before loading.
    """

    beam_width: int
    memory_before: float

    def __init__(self, method: Method, division: Division, stack: ExitStack) -> None:
        """
        Args:
            stack: closes the processes.
        """
        self.method = method
        self.division = division
        self._process = stack.enter_context(new_team(method.n_processes(division)))

    def load(self, settings: Settings, shared: Path) -> None:
        """Load the model, and start all processes.

        Args:
            shared: a directory for files that several processes can read.

        Raises:
            MethodError: if the method cannot run here.
        """
        loaded = self.call(worker.load, self.method, settings, self.division, shared)
        self.beam_width, self.memory_before = loaded

    def call(self, function: Callable, *args: Any) -> Any:
        """Run a function of the worker in the first process, and wait for it.

        Raises:
            MethodError: if the function fails, or if the process dies.
        """
        return self._result(self._process.submit(function, *args))

    def call_all(self, function: Callable, *args: Any) -> list[Any]:
        """Run a function of the worker in all processes at once, and wait for them.

        Raises:
            MethodError: if the function fails, or if a process dies.
        """
        return self._result(self._process.submit(in_team, function, *args))

    def _result(self, future: "Future[Any]") -> Any:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise MethodError("a process has died; is there enough memory?") from error
        except Exception as error:
            logger.debug("%s", self.method.name, exc_info=True)
            kind = "" if isinstance(error, EXPLAINED) else f"{type(error).__name__}: "
            raise MethodError(kind + " ".join(str(error).split())) from error


@dataclass
class Entry:
    """All rounds of one method, with one division of the threads, at one batch size.

    Attributes:
        memory: the sum of the peaks of the method's processes so far, in MiB; shared memory counts
            once.
        memory_before: MiB used by the first process before loading.
        flops: floating-point operations of a round; ``None`` if they are not counted.
    """

    method: Method
    division: Division
    batch_size: int
    beam_width: int
    memory_before: float
    memory: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    flops: Optional[int] = None


class Contest:
    """Runs the rounds, and stores the results.

    Attributes:
        entries: the results, by batch size and in the order of the command line, for each division
            of the threads.
        left_out: the reason why a method, or one of its divisions, did not run, by name.
        references: the reference texts by sentence number.
    """

    def __init__(
        self, methods: Sequence[Method], reference: str, settings: Settings, bar: tqdm
    ) -> None:
        """
        Args:
            reference: the name of the reference method.
            bar: shows the progress.
        """
        self._methods = methods
        self._reference = reference
        self._settings = settings
        self._bar = bar
        self.entries: list[Entry] = []
        self.left_out: dict[str, str] = {}
        self.references: dict[int, str] = {}
        self._flops: dict[tuple[str, int], Optional[int]] = {}
        self._failures: dict[str, dict[Division, str]] = {method.name: {} for method in methods}

    def run(self, batch_sizes: Sequence[int], n_rounds: int) -> None:
        """Load all methods, then decode with them in turn.

        Raises:
            MethodError: if the reference method fails; other methods that fail are left out.
        """
        with ExitStack() as stack:
            contenders = [
                Contender(method, division, stack)
                for method in self._methods
                for division in method.divisions(self._settings)
            ]
            n_steps = 1 + n_rounds + self._settings.counts_flops
            self._bar.reset(total=len(contenders) * (1 + len(batch_sizes) * n_steps))
            contenders = self._load(contenders)
            for batch_size in batch_sizes:
                contenders = self._run_batch_size(contenders, batch_size, n_rounds)

    def _load(self, contenders: list[Contender]) -> list[Contender]:
        """Load several methods at once, one per thread: nothing is measured yet."""
        loaded = []
        with (
            tempfile.TemporaryDirectory() as shared,
            ThreadPoolExecutor(self._settings.threads) as loaders,
        ):
            loads = [loaders.submit(each.load, self._settings, Path(shared)) for each in contenders]
            for contender, load in zip(contenders, loads):
                self._bar.set_description(f"{contender.method.name}: loads")
                try:
                    load.result()
                    if contender.method.name == self._reference and not self.references:
                        self.references = contender.call(
                            worker.references, self._settings.reference_text
                        )
                except MethodError as error:
                    self._leave_out(contender, error)
                else:
                    loaded.append(contender)
                self._bar.update()
        return loaded

    def _run_batch_size(
        self, contenders: list[Contender], batch_size: int, n_rounds: int
    ) -> list[Contender]:
        """Run all rounds of one batch size; returns the contenders that did not fail."""
        entries = {}
        for contender in contenders:
            entry = Entry(
                contender.method,
                contender.division,
                batch_size,
                contender.beam_width,
                contender.memory_before,
            )
            if self._attempt(contender, entry, "warms up", self._warm_up):
                entries[contender] = entry
        for number in range(1, n_rounds + 1):
            for contender, entry in list(entries.items()):
                if not self._attempt(contender, entry, f"round {number}", self._decode):
                    del entries[contender]
        if self._settings.counts_flops:
            for contender, entry in list(entries.items()):
                if not self._attempt(contender, entry, "counts", self._count):
                    del entries[contender]
        self.entries += entries.values()
        return list(entries)

    def _attempt(
        self,
        contender: Contender,
        entry: Entry,
        what: str,
        step: Callable[[Contender, Entry], None],
    ) -> bool:
        """Run a step; returns whether it succeeded."""
        name = f"{contender.method.name} ({contender.division})"
        self._bar.set_description(f"{name}: batch size {entry.batch_size}, {what}")
        try:
            step(contender, entry)
            entry.memory = sum(contender.call_all(peak_memory))
        except MethodError as error:
            self._leave_out(contender, error)
            return False
        finally:
            self._bar.update()
        return True

    def _warm_up(self, contender: Contender, entry: Entry) -> None:
        contender.call_all(worker.warm_up, entry.batch_size)

    def _decode(self, contender: Contender, entry: Entry) -> None:
        result = together(contender.call_all(worker.decode, entry.batch_size))
        n_missing = len(self.references.keys() - result.translations.keys())
        if n_missing:
            raise MethodError(f"{n_missing} of {len(self.references)} sentences were not decoded")
        entry.rounds.append(result)

    def _count(self, contender: Contender, entry: Entry) -> None:
        # The number does not depend on the division of the threads.
        counted = (contender.method.name, entry.batch_size)
        if counted not in self._flops:
            self._flops[counted] = contender.call(worker.flops, entry.batch_size)
        entry.flops = self._flops[counted]

    def _leave_out(self, contender: Contender, error: MethodError) -> None:
        method = contender.method
        failures = self._failures[method.name]
        failures[contender.division] = str(error)
        self._bar.write(f"left out: {method.name} ({contender.division}): {error}")
        n_divisions = len(method.divisions(self._settings))
        if len(failures) == n_divisions and method.name == self._reference:
            raise MethodError(f"--method {method.name!r}, the reference for the others: {error}")
        if len(failures) == n_divisions and len(set(failures.values())) == 1:
            for division in failures:
                self.left_out.pop(f"{method.name} ({division})", None)
            self.left_out[method.name] = str(error)
        else:
            self.left_out[f"{method.name} ({contender.division})"] = str(error)
