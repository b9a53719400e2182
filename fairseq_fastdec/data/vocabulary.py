"""Words and their numbers, without fairseq: what dictionaries and bundles share."""

from collections.abc import Collection, Mapping, Sequence

# subword-nmt's BPE and GPT-2's keep each word that they have seen; a corpus always has new ones.
MOST_WORDS = 50_000


def numbered(indices: Mapping[str, int], unknown: int, eos: int, text: str) -> list[int]:
    """The numbers of words, and EOS."""
    return [*(indices.get(word, unknown) for word in text.split()), eos]


def joined(
    symbols: Sequence[str], unknown: str, ends: Collection[int], numbers: Sequence[int]
) -> str:
    """The words of numbers; those in ``ends`` are left out."""
    n_symbols = len(symbols)
    found = [
        symbols[number] if number < n_symbols else unknown
        for number in numbers
        if number not in ends
    ]
    return " ".join(found)
