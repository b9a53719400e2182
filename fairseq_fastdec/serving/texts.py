"""Texts to sentences, sentences to translations, translations to texts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Optional

import sentencex

# From a sentence and its draft to its hypotheses, best first.
Translate = Callable[[str, Optional[str]], Awaitable[list[str]]]


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text, and what is between them.

    Attributes:
        sentences: n, without white space around them.
        separators: n + 1; the white space, and what has no letters, before, between and after the
            sentences.
    """

    sentences: list[str]
    separators: list[str]

    def join(self, sentences: Iterable[str]) -> str:
        """A text with other sentences and these separators."""
        pairs = zip_longest(self.separators, sentences, fillvalue="")
        return "".join(part for pair in pairs for part in pair)


def split(text: str, language: str) -> SplitText:
    """Split a text into sentences. A sentence does not continue on the next line.

    Args:
        language: the code of the text's language; sentencex has rules for many, and falls back to
            those of a related language or of English.
    """
    sentences, separators, end = [], [], 0
    start = 0
    for line in text.splitlines(keepends=True):
        for sentence in _sentences(line, language):
            begin = text.index(sentence, start)
            start = begin + len(sentence)
            if any(char.isalpha() for char in sentence):
                separators.append(text[end:begin])
                sentences.append(sentence)
                end = start
    return SplitText(sentences, [*separators, text[end:]])


def _sentences(line: str, language: str) -> list[str]:
    """The sentences of a line, without white space around them."""
    found = [sentence.strip() for sentence in sentencex.segment(language, line)]
    found = [sentence for sentence in found if sentence]
    # A line in which sentencex changed or lost a character is one sentence.
    if "".join("".join(found).split()) != "".join(line.split()):
        found = [line.strip()]
    return found


async def translate_texts(
    texts: list[str],
    language: str,
    translate: Translate,
    n: int,
    at_once: int,
    drafts: Optional[Sequence[SplitText]] = None,
) -> list[list[str]]:
    """Translate texts, their sentences concurrently.

    Args:
        language: of the texts.
        n: how many translations a text has.
        at_once: sentences that are translated at the same time.
        drafts: earlier translations of the texts.

    Returns:
        for each text n translations, best first. Translation i has each sentence's hypothesis i,
        or its last one if there are fewer.
    """
    parts = [split(text, language) for text in texts]
    turns = asyncio.Semaphore(at_once)

    async def in_turn(sentence: str, draft: Optional[str]) -> list[str]:
        async with turns:
            return await translate(sentence, draft)

    calls = []
    for number, part in enumerate(parts):
        own_drafts = _drafts_of(part, None if drafts is None else drafts[number])
        calls += [in_turn(*pair) for pair in zip(part.sentences, own_drafts)]
    hypotheses = iter(await gather(calls))
    results = []
    for part in parts:
        found = [next(hypotheses) for _ in part.sentences]
        results.append([part.join(best[min(i, len(best) - 1)] for best in found) for i in range(n)])
    return results


def _drafts_of(text: SplitText, draft: Optional[SplitText]) -> list[Optional[str]]:
    """The draft of each sentence; the whole of it if it has another number of sentences."""
    if draft is None or not draft.sentences:
        return [None] * len(text.sentences)
    if len(draft.sentences) == len(text.sentences):
        return list(draft.sentences)
    return [" ".join(draft.sentences)] * len(text.sentences)


async def gather(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    """Await all; if one fails, or the caller is cancelled, cancel the others."""
    if len(awaitables) == 1:  # as in most requests, which need no task then
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
