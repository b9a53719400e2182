"""Converts words to numbers and back, without fairseq, for dictionaries and bundles."""

from collections.abc import Collection, Mapping, Sequence

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
