"""Translates texts: splits them into sentences, and joins the translations."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Optional

import sentencex

# Takes a sentence and its drafts, and returns the hypotheses, best first.
Translate = Callable[[str, Optional[list[str]]], Awaitable[list[str]]]
# A draft has at most MOST_TIMES * len(sentence) + MOST_MORE characters; a longer one must belong to
# another sentence.
MOST_TIMES, MOST_MORE = 4, 200


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text and the separators between them.

    Attributes:
        sentences: n strings, without white space around them.
        separators: n + 1 strings before, between and after the sentences: white space, and segments
            without letters.
    """

    sentences: list[str]
    separators: list[str]

    def join(self, sentences: Iterable[str]) -> str:
        """Join other sentences with the separators of this text."""
        pairs = zip_longest(self.separators, sentences, fillvalue="")
        return "".join(part for pair in pairs for part in pair)


def split(text: str, language: str) -> SplitText:
    """Split a text into sentences. A line break always ends a sentence.

    Args:
        language: the code of the text's language. For a language without rules, sentencex falls
            back to a related language or English.
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
    """The sentences of a line, stripped."""
    found = [sentence.strip() for sentence in sentencex.segment(language, line)]
    found = [sentence for sentence in found if sentence]
    # If sentencex has changed or dropped a character, the whole line is one sentence.
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
    parts = [split(text, language) for text in texts]
    turns = asyncio.Semaphore(at_once)

    async def in_turn(sentence: str, candidates: Optional[list[str]]) -> list[str]:
        async with turns:
            return await translate(sentence, candidates)

    calls = []
    for number, part in enumerate(parts):
        candidates = _drafts_of(part, None if drafts is None else drafts[number])
        calls += [in_turn(*pair) for pair in zip(part.sentences, candidates)]
    hypotheses = iter(await gather(calls))
    results = []
    for part in parts:
        found = [next(hypotheses) for _ in part.sentences]
        results.append([part.join(best[min(i, len(best) - 1)] for best in found) for i in range(n)])
    return results


def _drafts_of(text: SplitText, draft: Optional[SplitText]) -> list[Optional[list[str]]]:
    """The drafts of each sentence, the likeliest one first.

    If the draft has another number of sentences, these are the sentence at the same relative place
    and its neighbours.
    """
    n, n_drafts = len(text.sentences), 0 if draft is None else len(draft.sentences)
    found: list[Optional[list[str]]] = []
    for i, sentence in enumerate(text.sentences):
        place = i * n_drafts // n
        places = [place] if n == n_drafts else [place, place + 1, place - 1]
        near = [draft.sentences[at] for at in places if draft and 0 <= at < n_drafts]
        # Bounds the time for tokenising a draft, which can be repeated for each sentence.
        near = [text for text in near if len(text) <= MOST_TIMES * len(sentence) + MOST_MORE]
        found.append(near or None)
    return found


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
