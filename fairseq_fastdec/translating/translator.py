"""Translation of text: the methods of translators, for checkpoints and bundles."""

import asyncio
import math
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, Optional, Union

from ..engine.kernels import loading
from ..engine.searches import NO_RESTRICTIONS, Output, Recipe, Restrictions, SourceSentence
from ..processes import cores
from .alignments import HARD, aligned
from .languages import Languages
from .phrases import check_consistent, check_takes, phrase_of
from .registry import ANY_DRAFTED
from .results import (
    NOT_FINITE,
    Alignment,
    Problem,
    SentenceError,
    Translation,
    stripped,
)
from .scheduler import Mailbox, Scheduler, SchedulerOptions, SearchOutcome
from .scoring import languages, pairs_of, scoring_job
from .sentences import Sentence, sentence_of, sentences_of, stream_of
from .tagged import TaggedSentence, kinds_of, stream_of_tagged
from .text import TextCodec
from .turns import at_most, turn

# The maximum number of sentences of a stream that wait, are decoded or are held for their turn.
STREAM_BUFFER = 512
# The number of combinations of options for which a translator keeps prepared objects.
MOST_REQUESTS = 64


# What a sentence becomes: strings or :class:`Translation` objects, best first, or the reason why it
# has no translation.
Found = Union[Problem, list[Any]]


class SentenceJob(NamedTuple):
    """A sentence to decode.

    Attributes:
        recipe: the search.
        sentence: what it gets.
        n_best: the number of hypotheses to return.
        written: converts hypotheses to strings, or to :class:`Translation` objects if its second
            argument is true.
    """

    recipe: Recipe
    sentence: SourceSentence
    n_best: int
    written: Callable[[Sequence[Output], bool], list[Any]]


class Translator(ABC):
    """A translation model, loaded by :func:`fairseq_fastdec.load`. Methods are thread-safe.

    Sentences of concurrent calls of :meth:`translate_async` and :meth:`translate_stream` share
    running batches, which they join and leave. All methods have the same translations.

    Attributes:
        codec: the dictionaries, the tokeniser and the BPE.
        source_lang, target_lang: the languages, if the model has them; the defaults of a model that
            translates between many.
        languages: these many; ``None`` for a model of one pair.
    """

    source_lang: Optional[str]
    target_lang: Optional[str]
    languages: Optional[Languages]
    # The options of calls without options of their own, from ``_new_request``.
    _usual: Any

    def __init__(self, codec: TextCodec) -> None:
        self.codec = codec
        self._scheduler: Optional[Scheduler] = None
        self._scheduling = SchedulerOptions()
        self._starting = threading.Lock()
        self._made: dict[Hashable, Any] = {}

    @abstractmethod
    def _new_request(self, options: dict[str, Any]) -> Any:
        """The options of a call, after those of :func:`load`.

        ``nbest`` is an attribute, and ``alignment``: a kind of :mod:`~.alignments` or ``None``.

        Raises:
            ValueError: for an option that is unknown or that the method does not support.
        """

    @abstractmethod
    def _job(self, sentence: Sentence, request: Any) -> Union[SentenceJob, Problem, None]:
        """The job for a sentence, whose text is not empty.

        Args:
            request: from :meth:`request`.

        Returns:
            ``None`` if the method needs whole batches
        """

    @abstractmethod
    def _several(
        self,
        sentences: Sequence[Sentence],
        request: Any,
        details: bool,
    ) -> list[Found]:
        """Translate sentences whose texts are not empty."""

    def request(self, options: dict[str, Any]) -> Any:
        """The options of a call; see :meth:`translate`."""
        return self._new_request(options) if options else self._usual

    def _request_of(
        self, options: dict[str, Any], details: bool, kinds: Collection[str] = ()
    ) -> Any:
        """The options of a call.

        Args:
            kinds: of tags, which need alignments.

        Raises:
            ValueError: see :meth:`_new_request`, and for alignments without ``details``.
        """
        if kinds:
            return self.request({**options, "alignment": HARD})
        request = self.request(options)
        if request.alignment is not None and not details:
            raise ValueError(
                f"alignment {request.alignment}: requires details=True, since strings have no "
                "alignment"
            )
        return request

    def job(
        self, text: str, options: dict[str, Any], draft: Optional[list[str]] = None
    ) -> Union[SentenceJob, Problem, None]:
        """The job for a stripped sentence; ``None`` if the method needs whole batches."""
        return self._job(Sentence(text, draft), self.request(options))

    @property
    def aligns(self) -> bool:
        """Whether subwords can be aligned while sentences are decoded one by one."""
        job = self._job(Sentence("a"), self._usual)
        return isinstance(job, SentenceJob) and job.recipe.aligns

    def n_threads(self) -> int:
        """The number of threads that decode one sentence."""
        return loading.measured(cores.n_usable(cores.usable_cores()))

    def translate(
        self,
        texts: Any,
        *,
        drafts: Any = None,
        constraints: Any = None,
        forbidden: Any = None,
        details: bool = False,
        tags: Union[str, Iterable[str], None] = None,
        **options: Any,
    ) -> Any:
        """Translate text.

        Args:
            texts: a sentence, or an iterable of sentences. White space around a sentence is
                ignored, and an empty one has an empty translation.
            drafts: earlier translations, which the model verifies. The result does not depend on
                them, but takes fewer steps if they are similar to it. For one sentence: a string,
                or several, best first. For several sentences: an iterable with a string, several
                strings or ``None`` for each.
            constraints: phrases that the translation contains, given like ``drafts``; the order of
                several is free. Only with ``decoding="beam"``, without sampling and pruning.
            forbidden: phrases that the translation does not contain, given like ``drafts``.
            details: return :class:`Translation` objects instead of strings.
            tags: what the texts contain: ``"html"``, ``"placeholders"``, such as ``{name}`` and
                ``%s``, or a list of both. Texts are translated without them, and they are carried
                over by alignment. A text with constraints has to be one sentence. Not with
                ``drafts``, ``details`` and ``alignment``.
            options: decoding options of this call, see :func:`load`, and the languages ``source``
                and ``target`` of a model that translates between many. ``glossary``, see
                :func:`load`, replaces that of the model. ``alignment="hard"``, or
                ``True``, and ``alignment="soft"`` align subwords, see :mod:`~.alignments`, and need
                ``details``. With checkpoints also ``batch_size`` and ``max_tokens``.

        Returns:
            for one sentence, a string or a :class:`Translation`, or a list of ``nbest`` of these,
            best first, if ``nbest`` is above 1; for several sentences, a list of these results

        Raises:
            TypeError: for anything but text.
            ValueError: for an option that is unknown or not supported by the method, and for
                phrases that the model cannot write.
            SentenceError: without ``details``, for sentences that are too long, that the tokeniser
                rejects or whose score is not finite. With ``details``, their :class:`Translation`
                has an ``error``.
        """
        given = dict(drafts=drafts, constraints=constraints, forbidden=forbidden)
        kinds = () if tags is None else kinds_of(tags, options, drafts=drafts, details=details)
        request = self._request_of(options, details, kinds)
        sentences = sentences_of(texts, **given)
        if kinds:
            several = [TaggedSentence(own, place, kinds) for place, own in enumerate(sentences)]
            parts = [part for own in several for part in own.sentences]
            of_parts = iter(self._translated(parts, request, True))
            found = [own.found([*islice(of_parts, len(own.sentences))]) for own in several]
        else:
            found = self._translated(sentences, request, details)
        results = [_shaped(own, request.nbest, details) for own in found]
        if not details:
            _raise(found, results)
        return results[0] if isinstance(texts, str) else results

    def _translated(
        self, sentences: Sequence[Sentence], request: Any, details: bool
    ) -> list[Found]:
        """Translate sentences; a single one is decoded in this thread."""
        if len(sentences) == 1 and sentences[0].text:
            job = self._job(sentences[0], request)
            if isinstance(job, SentenceJob):
                return [self._decoded_alone(job, details)]
            if job is not None:
                return [job]
        found: list[Found] = [_empty(details)] * len(sentences)
        kept = {place: own for place, own in enumerate(sentences) if own.text}
        for place, own in zip(
            kept, self._several([*kept.values()], request, details) if kept else ()
        ):
            found[place] = own
        return found

    def score(
        self,
        sources: Any,
        targets: Any,
        *,
        details: bool = False,
        source: Optional[str] = None,
        target: Optional[str] = None,
    ) -> Any:
        """Score given translations, as fairseq's ``--score-reference`` does.

        Decoding options, such as ``lenpen``, do not change scores.

        Args:
            sources: a sentence, or an iterable of sentences.
            targets: its translation, or an iterable with that of each sentence. White space around
                a text is ignored; an empty one has only EOS.
            details: return :class:`Translation` objects instead of numbers.
            source, target: the languages of a model that translates between many.

        Returns:
            for one sentence, the mean of the natural log-probabilities of the target's tokens, EOS
            included, or a :class:`Translation` with it; for several sentences, a list of these

        Raises:
            TypeError: for anything but text.
            ValueError: if there are not as many targets as sources, or for a model that cannot
                score.
            SentenceError: without ``details``, for pairs with a text that is too long or that the
                tokeniser rejects, or whose score is not finite. With ``details``, their
                :class:`Translation` has an ``error``.
        """
        request, pairs = self._scoring_request(source, target), pairs_of(sources, targets)
        job = self._scoring_job(*pairs[0], request) if len(pairs) == 1 else None
        if isinstance(job, SentenceJob):
            found = [self._decoded_alone(job, details)]
        else:
            found = self._scored(pairs, request, details) if pairs else []
        results = [_shaped(own, 1, details) for own in found]
        if not details:
            _raise(found, results)
        return results[0] if isinstance(sources, str) else results

    async def score_async(
        self,
        text: str,
        translation: str,
        *,
        details: bool = False,
        source: Optional[str] = None,
        target: Optional[str] = None,
    ) -> Any:
        """Score a translation in a running batch, without blocking the event loop.

        Args:
            text, translation: a source and a target of :meth:`score`.
            details, source, target: see :meth:`score`.

        Returns:
            a number or a :class:`Translation`

        Raises:
            QueueFull: if ``max_queue`` sentences wait.
            SentenceError, ValueError: see :meth:`score`.
        """
        pair = stripped(text, 0), stripped(translation, 0)
        await turn()
        request = self._scoring_request(source, target)
        job = self._scoring_job(*pair, request)
        found: Any = job
        if isinstance(job, SentenceJob):
            found = await self._decoded(job, details)
        elif job is None:
            (found,) = await asyncio.to_thread(self._scored, [pair], request, details)
        result = _shaped(found, 1, details)
        if not details:
            _raise([found], [result])
        return result

    def _scored(self, pairs: Sequence[tuple[str, str]], request: Any, details: bool) -> list[Found]:
        """Score targets; pairs of stripped texts."""
        jobs: Iterable[Any] = (self._scoring_job(*pair, request) for pair in pairs)
        found = dict(self._results(jobs, request, details, in_order=False))
        return [found[number] for number in range(len(pairs))]

    def _scoring_request(self, source: Optional[str], target: Optional[str]) -> Any:
        """The options of a call that scores; a given target needs no terms."""
        return self.request(languages(source, target))._replace(glossary=None)

    def _scoring_job(
        self, source: str, target: str, request: Any
    ) -> Union[SentenceJob, Problem, None]:
        """The job that scores a target; ``None`` if the models need whole batches."""
        job = self._job(Sentence(source), request)
        return scoring_job(job, target, self.codec) if isinstance(job, SentenceJob) else job

    def _decoded_alone(self, job: SentenceJob, details: bool) -> Found:
        """Decode a sentence in this thread."""
        with cores.TURNS:
            outcome = job.recipe.decoded(job.sentence, self.n_threads())
        return _found(job, outcome, details)

    def _check_glossary(self) -> None:
        """Check the glossary of :func:`load`.

        Raises:
            ValueError: with a method that does not take constraints, and for terms that the model
                cannot write.
        """
        glossary = self._usual.glossary
        if glossary is None:
            return
        for term in chain.from_iterable(glossary.terms.values()):
            phrase_of(f"{term.place}: the translation", term.target, self.codec)
        job = self._job(Sentence("a"), self._usual)
        if isinstance(job, SentenceJob):
            check_takes([[0]], job.recipe.takes_constraints, [], True)

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
        constraints: Union[str, Sequence[str], None] = None,
        forbidden: Union[str, Sequence[str], None] = None,
        details: bool = False,
        tags: Union[str, Iterable[str], None] = None,
        **options: Any,
    ) -> Any:
        """Translate a sentence without blocking the event loop.

        Cancelling the task removes the sentence from its batch.

        Args:
            draft: see ``drafts`` of :meth:`translate`.
            constraints, forbidden, details, tags, options: see :meth:`translate`.

        Returns:
            a string or a :class:`Translation`; a list of these if ``nbest`` is above 1

        Raises:
            QueueFull: if ``max_queue`` sentences wait.
            SentenceError: without ``details``, for a sentence that cannot be translated.
            ValueError: for an option that is unknown or that the method cannot honour.
        """
        kinds = () if tags is None else kinds_of(tags, options, draft=draft, details=details)
        sentence = sentence_of(text, 0, draft, constraints, forbidden)
        await turn()
        request = self._request_of(options, details, kinds)
        if kinds:
            own = await asyncio.to_thread(TaggedSentence, sentence, 0, kinds)
            most = min(self._scheduling.max_queue or STREAM_BUFFER, len(own.sentences))
            parts = ((part, request, True) for part in own.sentences)
            of_parts = await at_most(most, self._translated_async, parts)
            found = await asyncio.to_thread(own.found, of_parts)
        else:
            found = await self._translated_async(sentence, request, details)
        result = _shaped(found, request.nbest, details)
        if not details:
            _raise([found], [result])
        return result

    async def _translated_async(self, sentence: Sentence, request: Any, details: bool) -> Found:
        """Translate a sentence in a running batch, or in a worker thread."""
        job = self._job(sentence, request) if sentence.text else _empty(details)
        if isinstance(job, SentenceJob):
            return await self._decoded(job, details)
        if job is None:
            (job,) = await asyncio.to_thread(self._several, [sentence], request, details)
        return job

    async def _decoded(self, job: SentenceJob, details: bool) -> Found:
        """Decode a sentence in a running batch."""
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
        return _found(job, outcome, details)

    def translate_stream(
        self,
        texts: Iterable[str],
        *,
        drafts: Optional[Iterable[Union[str, Sequence[str], None]]] = None,
        constraints: Optional[Iterable[Union[str, Sequence[str], None]]] = None,
        forbidden: Optional[Iterable[Union[str, Sequence[str], None]]] = None,
        in_order: bool = True,
        tags: Union[str, Iterable[str], None] = None,
        **options: Any,
    ) -> Iterator[tuple[int, Any]]:
        """Translate sentences while they are read; batches are refilled as sentences finish.

        Args:
            texts: an iterable of sentences; at most :data:`STREAM_BUFFER` are read ahead.
            drafts, constraints, forbidden: iterables with those of each sentence, see
                :meth:`translate`.
            in_order: yield translations in the order of ``texts``, not as they finish.
            tags, options: see :meth:`translate`.

        Yields:
            the number of a sentence, from 0, and its :class:`Translation`, or a list of these if
            ``nbest`` is above 1. A sentence that cannot be translated has an ``error``. With
            ``tags``, a :class:`Translation` has only a ``text`` or an ``error``.

        Raises:
            OSError: if the threads of :meth:`schedule` cannot be started.
            RuntimeError: in a forked process, for a stream of its parent.
            TypeError: for anything but text.
            ValueError: if the iterables have different lengths, for an option that is unknown, or
                that the method cannot honour.
        """
        several = dict(drafts=drafts, constraints=constraints, forbidden=forbidden)
        for name, given in (("texts", texts), *several.items()):
            if isinstance(given, (str, bytes)):
                raise TypeError(f"{name}: is a single text; give an iterable of texts")
        kinds = () if tags is None else kinds_of(tags, options, drafts=drafts)
        request = self._request_of(options, True, kinds)
        sentences = stream_of(texts, **several)

        def translated(given: Iterable[Sentence]) -> Iterator[tuple[int, Found]]:
            return self._results(self._jobs(given, request, True), request, True, in_order)

        for number, found in (
            stream_of_tagged(sentences, kinds, translated) if kinds else translated(sentences)
        ):
            yield number, _shaped(found, request.nbest, True)

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

    def _jobs(
        self, sentences: Iterable[Sentence], request: Any, details: bool
    ) -> Iterator[Union[SentenceJob, Sentence, Found]]:
        """The jobs of sentences, results that need no decoding, or what needs a whole batch."""
        for sentence in sentences:
            job = self._job(sentence, request) if sentence.text else _empty(details)
            yield sentence if job is None else job

    def _restrictions(self, sentence: Sentence, request: Any) -> Restrictions:
        """The phrases of a sentence, and the translations of the terms that it contains.

        Raises:
            ValueError: for phrases that the model cannot write, or that exclude each other.
        """
        texts = [*sentence.constraints]
        if request.glossary is not None:
            terms = request.glossary.translations(sentence.text, request.pair)
            texts += [term for term in terms if term not in texts]
        if not texts and not sentence.forbidden:
            return NO_RESTRICTIONS
        constraints = [phrase_of("constraints", own, self.codec) for own in texts]
        forbidden = [phrase_of("forbidden", own, self.codec) for own in sentence.forbidden]
        check_consistent(constraints, forbidden, texts)
        return Restrictions(constraints, forbidden)

    def _results(
        self,
        jobs: Iterable[Union[SentenceJob, Sentence, Found]],
        request: Any,
        details: bool,
        in_order: bool,
    ) -> Iterator[tuple[int, Found]]:
        """Submit sentences as others finish, and yield their numbers and results."""
        source = enumerate(jobs)
        mailbox = Mailbox()
        # Results are written at their turn, where the error of a search is raised.
        held: dict[int, tuple[Optional[SentenceJob], Any]] = {}

        def hold(number: int, job: SentenceJob, outcome: SearchOutcome) -> None:
            held[number] = job, outcome

        n_yielded = 0
        try:
            while True:
                n_free = STREAM_BUFFER - len(mailbox) - len(held)
                is_at_end = n_free > 0  # unless the source has another sentence
                whole: dict[int, Sentence] = {}
                for number, job in islice(source, n_free):
                    is_at_end = False
                    if isinstance(job, SentenceJob):
                        self._submit(job, mailbox, partial(hold, number, job))
                    elif isinstance(job, Sentence):
                        whole[number] = job
                    else:
                        held[number] = None, job
                if whole:
                    several = self._several([*whole.values()], request, details)
                    held.update((number, (None, own)) for number, own in zip(whole, several))
                while held and (not in_order or n_yielded in held):
                    number = n_yielded if in_order else next(iter(held))
                    n_yielded += 1
                    yield number, _found(*held.pop(number), details)
                if mailbox:
                    mailbox.receive()
                elif is_at_end:
                    return
        finally:
            mailbox.cancel_all()

    def _written(
        self,
        source: Sequence[int],
        removed: Collection[int],
        outputs: Sequence[Output],
        details: bool,
        alignment: Optional[str] = None,
        places: Sequence[int] = (),
    ) -> list[Any]:
        """Strings or :class:`Translation` objects for the outputs of a sentence.

        Args:
            source: the source tokens.
            removed: the tokens that are not part of the text.
            alignment: a kind of :mod:`~.alignments`; the outputs have attention.
            places: those of the source subwords in the attention, see :meth:`_places`.
        """
        codec, results = self.codec, list[Any]()
        for output in outputs:
            tokens = output.tokens.tolist()
            kept = [place for place, token in enumerate(tokens) if token not in removed]
            numbers = [tokens[place] for place in kept]
            text: Any = codec.decode(numbers)
            if details:
                scores = output.positional_scores.tolist()
                text = Translation(
                    text,
                    output.score,
                    tuple(codec.words(codec.target, numbers).split()),
                    (*(scores[place] for place in kept), scores[-1]),
                    tuple(codec.words(codec.source, source).split()),
                    self._aligned(places, output, kept, alignment),
                )
            results.append(text)
        return results

    def _aligned(
        self, sources: Sequence[int], output: Output, kept: Iterable[int], kind: Optional[str]
    ) -> Optional[Alignment]:
        """The alignment of a hypothesis; see :meth:`_written`.

        Args:
            kept: the places of the target subwords.
        """
        if kind is None or output.attention is None:
            return None
        special = (self.codec.target.eos_index, self.codec.target.bos_index)
        targets = [at for at in kept if output.tokens[at] not in special]
        return aligned(output.attention, sources, targets, kind)

    def _places(self, source: Sequence[int], first: int, pad: int) -> list[int]:
        """The places of a sentence's subwords in the attention, which is without padding.

        Args:
            source: the tokens of the sentence, with EOS; a text can contain padding.
            first: the place of the first one in the encoder's input.
        """
        special = (self.codec.source.eos_index, self.codec.source.bos_index)
        numbers = [token for token in source if token != pad]
        return [first + at for at, token in enumerate(numbers) if token not in special]

    def _submit(
        self,
        job: SentenceJob,
        mailbox: Mailbox,
        done: Callable[[SearchOutcome], None],
        is_bounded: bool = False,
    ) -> int:
        """See :meth:`.scheduler.Scheduler.submit`."""
        return self._started().submit(job.recipe, job.sentence, mailbox, done, is_bounded)


def check_verifies(recipe: Recipe) -> None:
    """
    Raises:
        ValueError: if the method does not verify drafts.
    """
    if not recipe.verifies_drafts:
        raise ValueError(f"drafts: only with decoding {ANY_DRAFTED} and acceptance exact")


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


def _empty(details: bool) -> list[Any]:
    """The result of an empty sentence."""
    return [Translation("") if details else ""]


def _found(job: Optional[SentenceJob], outcome: Any, details: bool) -> Found:
    """The result of a sentence.

    Args:
        job: that of ``outcome``, which is the result if there is none.

    Raises:
        Exception: the error of the search, if it failed.
    """
    if job is None:
        return outcome
    if isinstance(outcome, Exception):
        raise outcome
    best = outcome[: job.n_best]
    if not best or not math.isfinite(best[0].score):
        return NOT_FINITE
    return job.written(best, details)


def _shaped(found: Found, n_best: int, details: bool) -> Any:
    """The return value for a sentence; ``None`` for a problem without ``details``."""
    if isinstance(found, Problem):
        if not details:
            return None
        found = [Translation(None, error=found)]
    return found[0] if n_best == 1 else found


def _raise(found: list[Found], results: list[Any]) -> None:
    """
    Raises:
        SentenceError: if there is a problem.
    """
    problems = {number: own for number, own in enumerate(found) if isinstance(own, Problem)}
    if problems:
        raise SentenceError(problems, results)
