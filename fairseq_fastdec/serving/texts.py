"""Translates texts: splits them into sentences, and joins the translations."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, Optional, Union

import sentencex

from ..translating import markup
from ..translating.language_codes import language_of
from ..translating.markup import Piece
from ..translating.results import BYTE_ORDER_MARK
from ..translating.runs import Run
from ..translating.sentences import SplitText, check_one, ranks
from ..translating.tagged import TaggedText, pieces_of
from ..translating.turns import at_most, in_turns

# Takes a sentence and its own options, and returns the hypotheses, best first.
Translate = Callable[[str, dict[str, Any]], Awaitable[list[Any]]]
AnySplit = Union[SplitText, TaggedText]
# A draft has at most MOST_TIMES * len(sentence) + MOST_MORE characters; a longer one must belong to
# another sentence.
MOST_TIMES, MOST_MORE = 4, 200
# The maximum length of a sentence: tokenisers take quadratic time for some texts.
MOST_CHARS = 1000
WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001)))) + BYTE_ORDER_MARK


async def split_texts(texts: Iterable[str], language: str) -> list[SplitText]:
    """Split texts into sentences, while other tasks run. A line break always ends a sentence.

    A sentence with more than :data:`MOST_CHARS` characters is cut at white space or, without white
    space, anywhere.

    Args:
        language: the code of the texts' language. For a language without rules, sentencex falls
            back to a related language or English.
    """
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


async def split_tagged(
    texts: Iterable[str], kinds: Sequence[str], is_aligned: bool, language: str
) -> list[TaggedText]:
    """Split texts with tags or placeholders, while other tasks run.

    Args:
        kinds: what they contain, see :func:`.tagged.pieces_of`.
        is_aligned: whether the translations have alignments; without, all tags separate texts.
    """
    found = []
    for text in texts:
        own: list[Union[Piece, Run]] = await in_turns(
            pieces_of(text, kinds) if is_aligned else markup.split(text)
        )
        strings = (piece.text for piece in own if piece.text is not None)
        found.append(TaggedText(own, await split_texts(strings, language)))
    return found


async def translate_texts(
    texts: Sequence[AnySplit],
    given: Iterable[dict[str, Any]],
    translate: Translate,
    n: int,
    at_once: int,
) -> tuple[list[list[str]], list[list[list[Any]]]]:
    """Translate the sentences of texts concurrently.

    Args:
        given: the options of each sentence.
        n: the number of translations of each text.
        at_once: the maximum number of sentences that are translated at the same time.

    Returns:
        n translations of each text, best first, and for each text the hypotheses of its sentences.
        Translation i consists of hypothesis i of each sentence, or of the sentence's last one if
        there are fewer.
    """
    sentences = [sentence for text in texts for sentence in text.sentences]
    found = iter(await at_most(min(at_once, len(sentences)), translate, zip(sentences, given)))
    hypotheses = [[*islice(found, len(text.sentences))] for text in texts]
    joined = await in_turns(_joined(texts, hypotheses, n))
    return [joined[start : start + n] for start in range(0, len(joined), n)], hypotheses


def _joined(
    texts: Sequence[AnySplit], hypotheses: Sequence[list[list[Any]]], n: int
) -> Iterator[Optional[str]]:
    """The n translations of each text, one text after the other. ``None`` is a piece of work."""
    for text, found in zip(texts, hypotheses):
        for rank in ranks(found, n):
            if isinstance(text, TaggedText):
                yield from text.joined(iter(rank))
            else:
                yield text.join(own if isinstance(own, str) else own.text for own in rank)


def with_drafts(
    texts: Iterable[AnySplit], drafts: Iterable[Optional[SplitText]]
) -> Iterator[dict[str, Any]]:
    """The drafts of each sentence, as options.

    Args:
        drafts: of each text; ``None`` for none.
    """
    for text, draft in zip(texts, drafts):
        for own in _drafts_of(text, draft):
            yield {} if own is None else {"draft": own}


def with_constraints(
    texts: Sequence[AnySplit], constraints: Sequence[list[str]]
) -> Iterator[dict[str, Any]]:
    """The constraints of each sentence, as options.

    Args:
        constraints: of the first texts.

    Raises:
        ValueError: for a text with constraints that is not one sentence.
    """
    for number, (text, own) in enumerate(zip(texts, constraints)):
        if own:
            check_one(text.sentences, number)
    pairs = zip_longest(texts, constraints)
    return ({"constraints": own} if own else {} for text, own in pairs for _ in text.sentences)


def _drafts_of(text: AnySplit, draft: Optional[SplitText]) -> Iterator[Optional[list[str]]]:
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
