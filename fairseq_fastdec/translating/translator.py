"""The base class of translators: sentences join running batches as they arrive."""

import asyncio
import math
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from ..engine.kernels import loading
from ..engine.searches import Output, Recipe
from ..processes import cores
from .registry import ANY_DRAFTED
from .results import NOT_FINITE, Problem, SentenceError, Translation, stripped, texts_of
from .scheduler import Mailbox, Scheduler, SchedulerOptions, SearchOutcome
from .turns import turn

# The maximum number of sentences of a stream that wait, are decoded or are held for their turn.
STREAM_BUFFER = 512
# The number of combinations of options for which a translator keeps prepared objects.
MOST_REQUESTS = 64


# Returns the value for a sentence, or raises its error.
Result = Callable[[], Any]


class SentenceJob(NamedTuple):
    """A sentence to decode.

    Attributes:
        recipe: the search.
        tokens: the source tokens, int64 ``[n]`` with EOS.
        n_best: the number of hypotheses to return.
        written: converts hypotheses to strings, or to :class:`Translation` objects if its second
            argument is true.
        draft: tokens of earlier translations, int64 ``[D]``; ``None`` without drafts.
    """

    recipe: Recipe
    tokens: np.ndarray
    n_best: int
    written: Callable[[Sequence[Output], bool], list[Any]]
    draft: Optional[np.ndarray] = None


class JoiningTranslator(ABC):
    """Translates sentences as they arrive, in batches that they join and leave.

    A sentence's translation is the same as that of :meth:`translate`. Methods are thread-safe.
    """

    def __init__(self) -> None:
        self._scheduler: Optional[Scheduler] = None
        self._scheduling = SchedulerOptions()
        self._starting = threading.Lock()
        self._made: dict[Hashable, Any] = {}

    @abstractmethod
    def translate(
        self, texts: Any, *, drafts: Any = None, details: bool = False, **options: Any
    ) -> Any:
        """Translate a sentence or a list of sentences."""

    @abstractmethod
    def job(
        self, text: str, options: dict[str, Any], draft: Optional[list[str]] = None
    ) -> Union[SentenceJob, Problem, None]:
        """The job for a sentence; ``None`` if the method needs whole batches.

        Args:
            text: the stripped sentence; not empty.
            draft: translations to verify, the best one first.

        Raises:
            ValueError: for an option that is unknown or that the method cannot honour.
        """

    @abstractmethod
    def n_best(self, options: dict[str, Any]) -> int:
        """The number of hypotheses that a call with these options returns for each sentence.

        Raises:
            ValueError: for an option that is unknown or that the method cannot honour.
        """

    def _remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The object that ``make`` returns, which later calls with an equal key return again.

        Args:
            key: the options of a call.
        """
        try:
            return self._made[key]
        except KeyError:
            made = make()
        if len(self._made) >= MOST_REQUESTS:
            self._made.clear()
        self._made[key] = made
        return made

    def n_threads(self) -> int:
        """The number of threads that decode one sentence."""
        return loading.measured(cores.n_usable(cores.usable_cores()))

    def decoded_alone(
        self, job: Union[SentenceJob, Problem], details: bool, options: dict[str, Any]
    ) -> Any:
        """Decode a sentence in the calling thread.

        Args:
            options: those of the call.

        Returns:
            the result of :meth:`translate` for a sentence.

        Raises:
            SentenceError: without ``details``, for a sentence that cannot be translated.
        """
        if isinstance(job, Problem):
            return _failed(job, details, self.n_best(options))
        with cores.TURNS:
            outcome = job.recipe.decoded(job.tokens, self.n_threads(), job.draft)
        return _result(job, outcome, details)

    def schedule(self, **options: Any) -> None:
        """Set the scheduling of :meth:`translate_async` and :meth:`translate_stream`.

        Args:
            options: ``threads``, ``batch_size``, ``max_queue``, ``max_wait_ms`` and ``policy``, see
                :class:`~.scheduler.SchedulerOptions`; omitted options have their defaults.

        Raises:
            ValueError: for an invalid value.
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

        Cancelling the task removes the sentence from its batch.

        Args:
            draft: see ``drafts`` of :meth:`translate`.
            details, options: see :meth:`translate`.

        Returns:
            a string or a :class:`Translation`; a list of these if ``nbest`` is above 1

        Raises:
            QueueFull: if ``max_queue`` sentences wait.
            SentenceError: without ``details``, for a sentence that cannot be translated.
            ValueError: for an option that is unknown or that the method cannot honour.
        """
        own_draft, line = draft_of(draft), stripped(text, 0)
        await turn()
        job = self._job_or_result(line, options, details, own_draft)
        if not isinstance(job, SentenceJob):
            return await asyncio.to_thread(job)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[SearchOutcome] = loop.create_future()

        def done(outcome: SearchOutcome) -> None:
            if not ended.done():
                ended.set_result(outcome)

        mailbox = _mailbox_of(loop)
        number = self._submit(job, mailbox, done, is_bounded=True)
        try:
            outcome = await ended
        except asyncio.CancelledError:
            mailbox.cancel(number)
            raise
        await turn()
        return _result(job, outcome, details)

    def translate_stream(
        self,
        texts: Iterable[str],
        *,
        drafts: Optional[Iterable[Union[str, Sequence[str], None]]] = None,
        in_order: bool = True,
        **options: Any,
    ) -> Iterator[tuple[int, Any]]:
        """Translate sentences while they are read; batches are refilled as sentences finish.

        Args:
            texts: an iterable of sentences; at most :data:`STREAM_BUFFER` are read ahead.
            drafts: an iterable with the draft of each sentence, see :meth:`translate`.
            in_order: yield translations in the order of ``texts``, not as they finish.
            options: see :meth:`translate`.

        Yields:
            the number of a sentence, from 0, and its :class:`Translation`, or a list of these if
            ``nbest`` is above 1. A sentence that cannot be translated has an ``error``.

        Raises:
            OSError: if the threads of :meth:`schedule` cannot be started.
            RuntimeError: in a forked process, for a stream of its parent.
            TypeError: for anything but text.
            ValueError: if ``texts`` and ``drafts`` have different lengths, for an option that is
                unknown, or that the method cannot honour.
        """
        for name, given in (("texts", texts), ("drafts", drafts)):
            if isinstance(given, (str, bytes)):
                raise TypeError(f"{name}: is a single text; give an iterable of texts")
        self.n_best(options)  # checks them, even if there are no texts
        drafted = ((text, None) for text in texts) if drafts is None else _pairs(texts, drafts)
        sources = (
            (stripped(text, number), draft_of(draft))
            for number, (text, draft) in enumerate(drafted)
        )
        for number, result in self._results(sources, options, True, in_order):
            yield number, result()

    def queued(self) -> tuple[int, int]:
        """The numbers of sentences that wait and that are being decoded."""
        scheduler = self._running()
        return (0, 0) if scheduler is None else scheduler.queued()

    def close(self) -> None:
        """Translate all submitted sentences, and stop the threads. Later calls start new ones."""
        with self._starting:
            scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.close()

    def _running(self) -> Optional[Scheduler]:
        """The scheduler of this process; a forked process has none of its parent's threads."""
        scheduler = self._scheduler
        return scheduler if scheduler is not None and scheduler.process == os.getpid() else None

    def _started(self) -> Scheduler:
        scheduler = self._running()
        if scheduler is None:
            with self._starting:
                scheduler = self._running()
                if scheduler is None:
                    self._scheduler = scheduler = Scheduler(self._scheduling)
        return scheduler

    def _results(
        self,
        sentences: Iterable[tuple[str, Optional[list[str]]]],
        options: dict[str, Any],
        details: bool,
        in_order: bool,
    ) -> Iterator[tuple[int, Result]]:
        """Submit sentences as others finish, and yield their numbers and results.

        Args:
            sentences: pairs of a sentence and its drafts.
        """
        source = enumerate(sentences)
        mailbox = Mailbox()
        held: dict[int, Result] = {}

        def hold(number: int, job: SentenceJob, outcome: SearchOutcome) -> None:
            held[number] = partial(_result, job, outcome, details)

        n_yielded = 0
        try:
            while True:
                n_free = STREAM_BUFFER - len(mailbox) - len(held)
                is_at_end = n_free > 0  # unless the source has another sentence
                for number, (text, draft) in islice(source, n_free):
                    is_at_end = False
                    job = self._job_or_result(text, options, details, draft)
                    if isinstance(job, SentenceJob):
                        self._submit(job, mailbox, partial(hold, number, job))
                    else:
                        held[number] = job
                while held and (not in_order or n_yielded in held):
                    number = n_yielded if in_order else next(iter(held))
                    n_yielded += 1
                    yield number, held.pop(number)
                if mailbox:
                    mailbox.receive()
                elif is_at_end:
                    return
        finally:
            mailbox.cancel_all()

    def _job_or_result(
        self, text: str, options: dict[str, Any], details: bool, draft: Optional[list[str]]
    ) -> Union[SentenceJob, Result]:
        """The job for a stripped sentence, or its result if it does not join a batch."""
        job = self.job(text, options, draft) if text else None
        if isinstance(job, SentenceJob):
            return job
        if isinstance(job, Problem):
            return partial(_failed, job, details, self.n_best(options))
        return partial(self.translate, text, drafts=draft, details=details, **options)

    def _submit(
        self,
        job: SentenceJob,
        mailbox: Mailbox,
        done: Callable[[SearchOutcome], None],
        is_bounded: bool = False,
    ) -> int:
        """See :meth:`.scheduler.Scheduler.submit`."""
        scheduler = self._started()
        return scheduler.submit(job.recipe, job.tokens, mailbox, done, is_bounded, job.draft)


def _pairs(texts: Iterable[str], drafts: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each text with its draft.

    Raises:
        ValueError: at the end of the shorter iterable, if their lengths differ.
    """
    missing = object()
    for text, draft in zip_longest(texts, drafts, fillvalue=missing):
        if text is missing or draft is missing:
            count = "more" if text is missing else "fewer"
            raise ValueError(f"drafts: {count} than texts; give one for each text, or None")
        yield text, draft


def check_verifies(recipe: Recipe) -> None:
    """
    Raises:
        ValueError: if the method does not verify drafts.
    """
    if not recipe.verifies_drafts:
        raise ValueError(f"drafts: only with decoding {ANY_DRAFTED} and acceptance exact")


def lines_and_drafts(texts: Any, drafts: Any) -> tuple[list[str], list[Optional[list[str]]]]:
    """The sentences of a call, stripped, and the drafts of each.

    Args:
        texts, drafts: see :meth:`JoiningTranslator.translate`; each is read once.

    Raises:
        TypeError: for anything but text.
        ValueError: if there are not as many drafts as sentences.
    """
    lines = [stripped(text, number) for number, text in enumerate(texts_of(texts))]
    if drafts is None:
        return lines, [None] * len(lines)
    if isinstance(texts, str):
        return lines, [draft_of(drafts)]
    given = [] if isinstance(drafts, str) or not isinstance(drafts, Iterable) else list(drafts)
    if len(given) != len(lines):
        raise ValueError(
            f"drafts: must be one for each of {len(lines)} sentences; use None for no draft"
        )
    return lines, [draft_of(draft) for draft in given]


def draft_of(draft: Any) -> Optional[list[str]]:
    """The drafts of a sentence, the best one first; ``None`` if none were given.

    Raises:
        TypeError: for anything but a string, an iterable of strings or ``None``.
    """
    if draft is None:
        return None
    is_iterable = isinstance(draft, Iterable) and not isinstance(draft, (str, bytes))
    several = list(draft) if is_iterable else [draft]
    if not all(isinstance(text, str) for text in several):
        raise TypeError("drafts: must be strings, lists of strings, or None")
    return [text for text in several if text.strip()]


# One mailbox for each event loop with sentences.
_MAILBOXES: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox]" = (
    weakref.WeakKeyDictionary()
)


def _mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    mailbox = _MAILBOXES.get(loop)
    if mailbox is None:
        mailbox = Mailbox()
        loop.add_reader(mailbox.fileno(), mailbox.receive)
        _MAILBOXES[loop] = mailbox
    return mailbox


def _result(job: SentenceJob, outcome: SearchOutcome, details: bool) -> Any:
    """The return value for a decoded sentence.

    Raises:
        Exception: the error of the search, if it failed.
    """
    if isinstance(outcome, Exception):
        raise outcome
    best = outcome[: job.n_best]
    if not best or not math.isfinite(best[0].score):
        return _failed(NOT_FINITE, details, job.n_best)
    results = job.written(best, details)
    return results[0] if job.n_best == 1 else results


def _failed(problem: Problem, details: bool, n_best: int) -> Any:
    """The return value for a sentence that cannot be translated.

    Raises:
        SentenceError: without ``details``.
    """
    if not details:
        raise SentenceError({0: str(problem)}, [None])
    failed = Translation(None, error=str(problem))
    return failed if n_best == 1 else [failed]
