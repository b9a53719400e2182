"""Texts to sentences, sentences to translations, translations to texts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Optional

import sentencex

# From a sentence and its drafts to its hypotheses, best first.
Translate = Callable[[str, Optional[list[str]]], Awaitable[list[str]]]
# A longer draft is of another sentence: its characters, by those of the source and besides.
MOST_TIMES, MOST_MORE = 4, 200


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

    async def in_turn(sentence: str, own: Optional[list[str]]) -> list[str]:
        async with turns:
            return await translate(sentence, own)

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


def _drafts_of(text: SplitText, draft: Optional[SplitText]) -> list[Optional[list[str]]]:
    """The drafts of each sentence, the likeliest one first.

    If the draft has another number of sentences, these are the one at the same relative place and
    its neighbours.
    """
    n, n_drafts = len(text.sentences), 0 if draft is None else len(draft.sentences)
    found: list[Optional[list[str]]] = []
    for i, sentence in enumerate(text.sentences):
        place = i * n_drafts // n
        places = [place] if n == n_drafts else [place, place + 1, place - 1]
        own = [draft.sentences[at] for at in places if draft and 0 <= at < n_drafts]
        # Nothing else bounds the time for tokenising a draft again for each sentence.
        own = [text for text in own if len(text) <= MOST_TIMES * len(sentence) + MOST_MORE]
        found.append(own or None)
    return found


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
