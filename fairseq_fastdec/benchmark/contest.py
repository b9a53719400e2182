"""Whose turn it is: every method in a process of its own, one of them decoding at a time."""

import logging
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Sequence

from tqdm import tqdm

from . import worker
from .measurement import Round, peak_memory
from .methods import Method, Settings
from .processes import new_process

logger = logging.getLogger(__name__)

# Errors whose messages say all that a user needs.
EXPLAINED = (ImportError, OSError, ValueError)


class MethodError(Exception):
    """A method cannot go on; the message says why."""


class Contender:
    """A method and its process.

    Attributes:
        beam_width: 1 where one hypothesis is kept.
        memory_before: MiB that the process had taken before anything was loaded.
    """

    def __init__(self, method: Method, settings: Settings, stack: ExitStack) -> None:
        """
        Args:
            stack: ends the process.

        Raises:
            MethodError: if the method cannot run here.
        """
        self.method = method
        self._process = stack.enter_context(new_process())
        self.beam_width, self.memory_before = self.call(worker.load, method, settings)

    def call(self, function: Callable, *args: Any) -> Any:
        """Run one of the worker's functions in the process, and wait for it.

        Raises:
            MethodError: if the function fails, or the process ends.
        """
        try:
            return self._process.submit(function, *args).result()
        except BrokenProcessPool as error:
            raise MethodError("its process has ended; is there enough memory?") from error
        except Exception as error:
            logger.debug("%s", self.method.name, exc_info=True)
            kind = "" if isinstance(error, EXPLAINED) else f"{type(error).__name__}: "
            raise MethodError(kind + " ".join(str(error).split())) from error


@dataclass
class Entry:
    """All rounds of one method at one batch size.

    Attributes:
        memory: MiB, the peak of the method's process up to their end.
        memory_before: MiB that the process had taken before anything was loaded.
    """

    method: Method
    batch_size: int
    beam_width: int
    memory_before: float
    memory: float = 0.0
    rounds: List[Round] = field(default_factory=list)


class Contest:
    """Runs the rounds; what it found is in its attributes.

    Attributes:
        entries: methods that ran, by batch size and in the order of the command line.
        left_out: why a method did not run, by name.
        references: their text by sentence number.
    """

    def __init__(
        self, methods: Sequence[Method], reference: str, settings: Settings, bar: tqdm
    ) -> None:
        """
        Args:
            reference: the name of the method that the others are compared with.
            bar: shows the progress.
        """
        self._methods = methods
        self._reference = reference
        self._settings = settings
        self._bar = bar
        self.entries: List[Entry] = []
        self.left_out: Dict[str, str] = {}
        self.references: Dict[int, str] = {}

    def run(self, batch_sizes: Sequence[int], n_rounds: int) -> None:
        """Load all methods, then decode with them in turn.

        Raises:
            MethodError: if the method to compare with fails; the others are left out where they do.
        """
        self._bar.reset(total=len(self._methods) * (1 + len(batch_sizes) * (1 + n_rounds)))
        with ExitStack() as stack:
            contenders = self._load(stack)
            for batch_size in batch_sizes:
                contenders = self._run_batch_size(contenders, batch_size, n_rounds)

    def _load(self, stack: ExitStack) -> List[Contender]:
        contenders = []
        for method in self._methods:
            self._bar.set_description(f"{method.name}: loads")
            try:
                contender = Contender(method, self._settings, stack)
                if method.name == self._reference:
                    self.references = contender.call(worker.references)
            except MethodError as error:
                self._leave_out(method, error)
            else:
                contenders.append(contender)
            self._bar.update()
        return contenders

    def _run_batch_size(
        self, contenders: List[Contender], batch_size: int, n_rounds: int
    ) -> List[Contender]:
        """All rounds of one batch size; returns the contenders that got through them."""
        entries = {}
        for contender in contenders:
            entry = Entry(
                contender.method, batch_size, contender.beam_width, contender.memory_before
            )
            if self._attempt(contender, entry, "warms up", self._warm_up):
                entries[contender] = entry
        for number in range(1, n_rounds + 1):
            for contender, entry in list(entries.items()):
                if not self._attempt(contender, entry, f"round {number}", self._decode):
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
        """Do a step; whether it succeeded."""
        self._bar.set_description(f"{contender.method.name}: batch size {entry.batch_size}, {what}")
        try:
            step(contender, entry)
            entry.memory = contender.call(peak_memory)
        except MethodError as error:
            self._leave_out(contender.method, error)
            return False
        finally:
            self._bar.update()
        return True

    def _warm_up(self, contender: Contender, entry: Entry) -> None:
        contender.call(worker.warm_up, entry.batch_size)

    def _decode(self, contender: Contender, entry: Entry) -> None:
        result = contender.call(worker.decode, entry.batch_size)
        n_missing = len(self.references.keys() - result.translations.keys())
        if n_missing:
            raise MethodError(f"{n_missing} of {len(self.references)} sentences were not decoded")
        entry.rounds.append(result)

    def _leave_out(self, method: Method, error: MethodError) -> None:
        if method.name == self._reference:
            raise MethodError(
                f"--method {method.name!r}, which the others are compared with: {error}"
            )
        self.left_out[method.name] = str(error)
        self._bar.write(f"left out: {method.name}: {error}")
