"""Translates texts: splits them into sentences, and joins the translations."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, Optional, TypeVar

import sentencex

from ..translating.language_codes import language_of
from ..translating.results import BYTE_ORDER_MARK
from ..translating.sentences import SplitText
from ..translating.turns import in_turns

Returned = TypeVar("Returned")
# Takes a sentence and its drafts, and returns the hypotheses, best first.
Translate = Callable[[str, Optional[list[str]]], Awaitable[list[str]]]
# A draft has at most MOST_TIMES * len(sentence) + MOST_MORE characters; a longer one must belong to
# another sentence.
MOST_TIMES, MOST_MORE = 4, 200
# The maximum length of a sentence: tokenisers take quadratic time for some texts.
MOST_CHARS = 1000
WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + BYTE_ORDER_MARK


def split(text: str, language: str) -> SplitText:
    """Split a text into sentences. A line break always ends a sentence.

    A sentence with more than :data:`MOST_CHARS` characters is cut at white space or, without white
    space, anywhere.

    Args:
        language: the code of the text's language. For a language without rules, sentencex falls
            back to a related language or English.
    """
    return next(filter(None, _splits([text], language)))


async def split_texts(texts: Iterable[str], language: str) -> list[SplitText]:
    """Split texts, see :func:`split`, while other tasks run."""
    return await in_turns(_splits(texts, language))


def _splits(texts: Iterable[str], language: str) -> Iterator[Optional[SplitText]]:
    """Split texts. ``None`` stands for a piece of work."""
    for text in texts:
        sentences, separators, end = list[str](), list[str](), 0
        for begin, sentence in _sentences(text, language):
            if any(char.isalpha() for char in sentence):
                separators.append(text[end:begin])
                sentences.append(sentence)
                end = begin + len(sentence)
            yield None
        yield SplitText(sentences, [*separators, text[end:]])


def _sentences(text: str, language: str) -> Iterator[tuple[int, str]]:
    """The places and the sentences of a text, and empty strings after each piece of work."""
    start = 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        while start < end:
            # sentencex takes quadratic time for some texts.
            window = text[start : min(start + 2 * MOST_CHARS, end)]
            after = start + len(window)
            found = list(_placed(window, _segmented(window, language)))
            # The last sentence of a window may continue in the next one.
            if after < end and found and found[-1][0] >= MOST_CHARS:
                after = start + found.pop()[0]
            yield from ((start + place, sentence) for place, sentence in found)
            yield after, ""
            start = after


def _segmented(window: str, language: str) -> list[str]:
    """The sentences of a part of a line, stripped and cut."""
    if not window.strip(WHITE_SPACE):
        return []
    sentences = sentencex.segment(language_of(language), window)
    found = [sentence.strip(WHITE_SPACE) for sentence in sentences]
    # If sentencex has changed or dropped a character, the whole window is one sentence.
    if _visible("".join(found)) != _visible(window):
        found = [window.strip(WHITE_SPACE)]
    return [part for sentence in found for part in _cut(sentence)]


def _visible(text: str) -> str:
    return "".join(text.split()).replace(BYTE_ORDER_MARK, "")


def _cut(sentence: str) -> Iterator[str]:
    """The parts of a sentence, with at most :data:`MOST_CHARS` characters each."""
    while len(sentence) > MOST_CHARS:
        head = sentence[: MOST_CHARS + 1].rsplit(None, 1)[0]
        if not MOST_CHARS // 2 <= len(head) <= MOST_CHARS:
            head = sentence[:MOST_CHARS]
        yield head
        sentence = sentence[len(head) :].strip(WHITE_SPACE)
    if sentence:
        yield sentence


def _placed(window: str, sentences: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The place of each sentence in a part of a line."""
    end = 0
    for sentence in sentences:
        begin = window.index(sentence, end)
        end = begin + len(sentence)
        yield begin, sentence


async def translate_texts(
    texts: list[str],
    language: str,
    translate: Translate,
    n: int,
    at_once: int,
    drafts: Optional[Sequence[SplitText]] = None,
) -> list[list[str]]:
    """Translate the sentences of texts concurrently.

    Args:
        language: the language code of the texts.
        n: the number of translations of each text.
        at_once: the maximum number of sentences that are translated at the same time.
        drafts: earlier translations of the texts.

    Returns:
        n translations of each text, best first. Translation i consists of hypothesis i of each
        sentence, or of the sentence's last one if there are fewer.
    """
    parts = await split_texts(texts, language)
    pairs = chain.from_iterable(
        zip(part.sentences, _drafts_of(part, draft))
        for part, draft in zip(parts, repeat(None) if drafts is None else drafts)
    )
    n_sentences = sum(len(part.sentences) for part in parts)
    found = await at_most(min(at_once, n_sentences), translate, pairs)
    joined = await in_turns(_joined(parts, iter(found), n))
    return [joined[start : start + n] for start in range(0, len(joined), n)]


def _joined(parts: Iterable[SplitText], hypotheses: Iterator[list[str]], n: int) -> Iterator[str]:
    """The n translations of each text, one text after the other."""
    for part in parts:
        found = list(islice(hypotheses, len(part.sentences)))
        for i in range(n):
            yield part.join(best[min(i, len(best) - 1)] for best in found)


def _drafts_of(text: SplitText, draft: Optional[SplitText]) -> Iterator[Optional[list[str]]]:
    """The drafts of each sentence, the likeliest one first.

    If the draft has another number of sentences, these are the sentence at the same relative place
    and its neighbours.
    """
    n, n_drafts = len(text.sentences), 0 if draft is None else len(draft.sentences)
    for i, sentence in enumerate(text.sentences):
        place = i * n_drafts // n
        places = [place] if n == n_drafts else [place, place + 1, place - 1]
        near = [draft.sentences[at] for at in places if draft and 0 <= at < n_drafts]
        # Bounds the time for tokenising a draft, which can be repeated for each sentence.
        near = [text for text in near if len(text) <= MOST_TIMES * len(sentence) + MOST_MORE]
        yield near or None


async def at_most(
    n: int, call: Callable[..., Awaitable[Returned]], arguments: Iterable[tuple[Any, ...]]
) -> list[Returned]:
    """Await calls with each of the arguments, n at the same time; their results, in order."""
    found: dict[int, Returned] = {}

    async def work() -> None:
        # All workers take from the same iterator.
        for number, own in calls:
            found[number] = await call(*own)

    calls = enumerate(arguments)
    await gather([work() for _ in range(n)])
    return [found[number] for number in range(len(found))]


async def gather(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    """Await all; if one fails, or the caller is cancelled, cancel the others."""
    if len(awaitables) == 1:  # most requests: no task needed
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
