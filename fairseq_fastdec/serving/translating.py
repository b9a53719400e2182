"""The base of translators of checkpoints and of bundles: sentences that join running batches."""

import asyncio
import contextlib
import math
import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from .. import cores
from ..engine.kernels import loading
from ..engine.searches import Output, Recipe
from ..results import NOT_FINITE, Problem, SentenceError, Translation
from .scheduler import Scheduler, SchedulerOptions, SearchOutcome

# The sentences that a stream has under way or waiting.
STREAM_BUFFER = 512


# Returns what a call returns for a sentence, or raises its error.
Result = Callable[[], Any]


class SentenceJob(NamedTuple):
    """A sentence to decode.

    Attributes:
        tokens: of the source as the model reads it, int64 ``[n]`` with EOS.
        n_best: how many hypotheses the caller wants.
        written: from these hypotheses to strings, or with ``True`` to :class:`Translation`.
        draft: of the output, int64 ``[D]``; ``None`` for none.
    """

    recipe: Recipe
    tokens: np.ndarray
    n_best: int
    written: Callable[[Sequence[Output], bool], list[Any]]
    draft: Optional[np.ndarray] = None

    def results(self, outcome: SearchOutcome, details: bool) -> Union[list[Any], Problem]:
        """The best hypotheses, best first.

        Raises:
            Exception: what the search has raised.
        """
        if isinstance(outcome, Exception):
            raise outcome
        best = outcome[: self.n_best]
        if not best or not math.isfinite(best[0].score):
            return NOT_FINITE
        return self.written(best, details)


class JoiningTranslator(ABC):
    """Translates sentences that arrive one by one, in batches that they join and leave.

    Translations are those that :meth:`translate` gives a sentence alone. Any number of threads may
    call the methods.
    """

    def __init__(self) -> None:
        self._scheduler: Optional[Scheduler] = None
        self._scheduling = SchedulerOptions()
        self._starting = threading.Lock()

    @abstractmethod
    def translate(
        self, texts: Any, *, drafts: Any = None, details: bool = False, **options: Any
    ) -> Any:
        """Translate a sentence or a list of sentences."""

    @abstractmethod
    def job(
        self, text: str, options: dict[str, Any], draft: Optional[list[str]] = None
    ) -> Union[SentenceJob, Problem, None]:
        """A sentence as it is decoded; ``None`` if the method cannot take sentences one by one.

        Args:
            text: not empty, without white space around it.
            draft: translations to verify, the best one first.

        Raises:
            ValueError: for an option that is unknown or that the method cannot honour.
        """

    def n_threads(self) -> int:
        """The number of threads that decode one sentence."""
        return loading.measured(cores.n_usable(cores.usable_cores()))

    def decoded_alone(self, job: Union[SentenceJob, Problem], details: bool) -> Any:
        """A sentence's translation, decoded in the calling thread.

        Returns:
            what :meth:`translate` returns for a sentence.

        Raises:
            SentenceError: without ``details``, for a sentence that cannot be translated.
        """
        if isinstance(job, Problem):
            return _failed(job, details)
        with cores.TURNS:
            outcome = job.recipe.decoded(job.tokens, self.n_threads(), job.draft)
        return _result(job, outcome, details)

    def schedule(self, **options: Any) -> None:
        """Set how :meth:`translate_async` and :meth:`translate_stream` decode.

        Args:
            options: ``threads``, ``batch_size``, ``max_queue``, ``max_wait_ms`` and ``policy``, see
                :class:`~.scheduler.SchedulerOptions`; the others get their defaults.

        Raises:
            ValueError: for a value that means nothing.
        """
        given = SchedulerOptions(**options)
        self.close()
        self._scheduling = given

    async def translate_async(
        self,
        text: str,
        *,
        draft: Union[str, Sequence[str], None] = None,
        details: bool = False,
        **options: Any,
    ) -> Any:
        """Translate a sentence without blocking the event loop.

        Cancelling the task takes the sentence out of its batch.

        Args:
            draft: see ``drafts`` of :meth:`translate`.
            details, options: see :meth:`translate`.

        Returns:
            a string or a :class:`Translation`; a list of ``nbest`` of these if it is above 1

        Raises:
            QueueFull: if ``max_queue`` sentences wait.
            SentenceError: without ``details``, for a sentence that cannot be translated.
            ValueError: for an option that is unknown or that the method cannot honour.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()

        def done(result: Result) -> None:
            # A loop that has ended waits for nothing.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, ended, result)

        (own_draft,) = drafts_of(draft, True, 1)
        number = self._submit(text.strip(), options, details, done, True, own_draft)
        try:
            result = await ended
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        return await asyncio.to_thread(result) if number is None else result()

    def translate_stream(
        self, texts: Iterable[str], *, in_order: bool = True, **options: Any
    ) -> Iterator[tuple[int, Any]]:
        """Translate sentences while they are read; batches are refilled as sentences finish.

        Args:
            texts: any source of sentences; at most some hundred are read in advance.
            in_order: whether translations come in the order of ``texts``, and not as they finish.
            options: see :meth:`translate`.

        Yields:
            the number of a sentence, from 0, and its :class:`Translation`, or a list of ``nbest``
            of these if it is above 1. One that could not be translated has an ``error``.
        """
        sources = ((text.strip(), None) for text in texts)
        for number, result in self._results(sources, options, True, in_order):
            yield number, result()

    def queued(self) -> tuple[int, int]:
        """The numbers of sentences that wait, and that are under way."""
        return (0, 0) if self._scheduler is None else self._scheduler.queued()

    def close(self) -> None:
        """Translate what has been submitted, and end the threads; a later call starts new ones."""
        with self._starting:
            scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.close()

    def _started(self) -> Scheduler:
        scheduler = self._scheduler
        # A forked process has none of the threads.
        if scheduler is None or scheduler.process != os.getpid():
            with self._starting:
                scheduler = self._scheduler
                if scheduler is None or scheduler.process != os.getpid():
                    self._scheduler = scheduler = Scheduler(self._scheduling)
        return scheduler

    def _results(
        self,
        sentences: Iterable[tuple[str, Optional[list[str]]]],
        options: dict[str, Any],
        details: bool,
        in_order: bool,
    ) -> Iterator[tuple[int, Result]]:
        """The results of sentences, which are submitted as others end, with their numbers.

        Args:
            sentences: each with its drafts.
        """
        source = enumerate(sentences)
        ended: queue.SimpleQueue[tuple[int, Result]] = queue.SimpleQueue()
        under_way: dict[int, Optional[int]] = {}
        held: dict[int, Result] = {}
        n_yielded = 0
        try:
            while True:
                n_free = STREAM_BUFFER - len(under_way) - len(held)
                for number, (text, draft) in islice(source, n_free):
                    done = partial(_put, ended, number)
                    under_way[number] = self._submit(text, options, details, done, draft=draft)
                if not under_way:
                    return
                number, result = ended.get()
                del under_way[number]
                held[number] = result
                while held and (not in_order or n_yielded in held):
                    number = n_yielded if in_order else next(iter(held))
                    n_yielded += 1
                    yield number, held.pop(number)
        finally:
            for submitted in under_way.values():
                self._cancel(submitted)

    def _submit(
        self,
        text: str,
        options: dict[str, Any],
        details: bool,
        done: Callable[[Result], None],
        is_bounded: bool = False,
        draft: Optional[list[str]] = None,
    ) -> Optional[int]:
        """Have a sentence translated.

        Args:
            text: without white space around it.
            done: gets the result, perhaps in another thread.
            is_bounded: see :meth:`.scheduler.Scheduler.submit`.

        Returns:
            its number in the scheduler; ``None`` if it does not join a batch
        """
        job = self.job(text, options, draft) if text else None
        if isinstance(job, SentenceJob):

            def decoded(outcome: SearchOutcome) -> None:
                done(partial(_result, job, outcome, details))

            scheduler = self._started()
            return scheduler.submit(job.recipe, job.tokens, decoded, is_bounded, job.draft)
        if isinstance(job, Problem):
            done(partial(_failed, job, details))
        else:
            done(partial(self.translate, text, drafts=draft, details=details, **options))
        return None

    def _cancel(self, number: Optional[int]) -> None:
        scheduler = self._scheduler
        if number is not None and scheduler is not None:
            scheduler.cancel(number)


def check_verifies(recipe: Recipe) -> None:
    """
    Raises:
        ValueError: if a method has no use for drafts.
    """
    if not recipe.verifies_drafts:
        raise ValueError(
            "drafts: only with decoding greedy, blockwise or lookahead and acceptance exact"
        )


def drafts_of(drafts: Any, is_one: bool, n: int) -> list[Optional[list[str]]]:
    """The drafts of n sentences, each with none, one or several.

    Args:
        drafts: of :meth:`JoiningTranslator.translate`.
        is_one: whether they are of a single sentence, and not of a list.

    Raises:
        TypeError: for anything else than text.
        ValueError: if these are not n.
    """
    if drafts is None:
        return [None] * n
    given = [drafts] if is_one else drafts
    if isinstance(given, str) or len(given) != n:
        raise ValueError(f"drafts: not one for each of {n} sentences; use None for no draft")
    found: list[Optional[list[str]]] = []
    for own in given:
        several = [own] if isinstance(own, str) else own
        if several is not None and not all(isinstance(text, str) for text in several):
            raise TypeError("drafts: must be strings, lists of strings, or None")
        found.append(None if several is None else [text for text in several if text.strip()])
    return found


def _put(ended: "queue.SimpleQueue[tuple[int, Result]]", number: int, result: Result) -> None:
    ended.put((number, result))


def _settle(future: "asyncio.Future[Result]", result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _result(job: SentenceJob, outcome: SearchOutcome, details: bool) -> Any:
    """The value that a call returns for a sentence that is decoded."""
    results = job.results(outcome, details)
    if isinstance(results, Problem):
        return _failed(results, details)
    return results[0] if job.n_best == 1 else results


def _failed(problem: Problem, details: bool) -> Translation:
    if not details:
        raise SentenceError({0: str(problem)}, [None])
    return Translation(None, error=str(problem))
