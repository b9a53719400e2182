"""Converts words to numbers and back, without fairseq, for dictionaries and bundles."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .results import Problem

# The BPEs of subword-nmt and GPT-2 cache every word; this limits the cache on large corpora.
MOST_WORDS = 50_000


def numbered(indices: Mapping[str, int], unknown: int, eos: int, text: str) -> list[int]:
    """The numbers of the words of a text, followed by EOS."""
    return [*(indices.get(word, unknown) for word in text.split()), eos]


def joined(
    symbols: Sequence[str], unknown: str, ends: Collection[int], numbers: Sequence[int]
) -> str:
    """Join the words of numbers; numbers in ``ends`` are skipped."""
    n_symbols = len(symbols)
    found = [
        symbols[number] if number < n_symbols else unknown
        for number in numbers
        if number not in ends
    ]
    return " ".join(found)


def segmented(text: str, coders: Iterable[Any]) -> str:
    """Tokenise text and split it into subwords.

    Args:
        coders: the tokeniser and the BPE, objects with ``encode(str) -> str`` or ``None``.
    """
    for coder in coders:
        if coder is not None:
            text = coder.encode(text)
    return text


def detokenized(text: str, coders: Iterable[Any]) -> str:
    """Undo :func:`segmented` with the BPE and the tokeniser, in this order."""
    for coder in coders:
        if coder is not None:
            text = coder.decode(text)
    return text


def not_tokenized(error: Exception) -> Problem:
    """The problem of a sentence for which a third-party tokeniser or BPE raises an error."""
    details = f"the tokeniser or BPE raises {type(error).__name__}: {error}"
    return Problem("not tokenised", details)
