"""Applies subword-nmt's merges to long words in almost linear time.

subword-nmt searches the whole word for each merge, which takes quadratic time.
"""

import heapq
from collections.abc import Mapping
from typing import Any

# Words with more characters are long.
LONG = 40
END = "</w>"


class WordCache(dict[str, tuple[str, ...]]):
    """A cache for the words of subword-nmt's ``BPE`` that has all long words."""

    def __init__(self, bpe: Any) -> None:
        super().__init__()
        self._merges, self._version = bpe.bpe_codes, bpe.version

    def __contains__(self, word: object) -> bool:
        if super().__contains__(word):
            return True
        if not isinstance(word, str) or len(word) <= LONG:
            return False
        self[word] = subwords(word, self._merges, self._version)
        return True


def speed_up_long_words(coder: Any) -> None:
    """Give a ``BPE`` of subword-nmt a cache that has all long words. Its output stays the same.

    Args:
        coder: a ``BPE``, or fairseq's ``--bpe subword_nmt``. Other objects, and those with a
            vocabulary or glossaries, are not changed.
    """
    bpe = getattr(coder, "bpe", coder)
    is_known = type(bpe).__module__ == "subword_nmt.apply_bpe"
    if is_known and not bpe.vocab and not bpe.glossaries:
        bpe.cache = WordCache(bpe)


def subwords(
    word: str, merges: Mapping[tuple[str, str], int], version: tuple[int, int]
) -> tuple[str, ...]:
    """The subwords of a word.

    Args:
        merges: the pairs of symbols that are merged, with their ranks.
        version: that of the file of merges, 0.1 or 0.2.
    """
    symbols = [*word, END] if version == (0, 1) else [*word[:-1], word[-1] + END]
    # The places of the symbols before and after each symbol. A merged symbol has the place of its
    # first part, and the other place has an empty string.
    before, after = list(range(-1, len(symbols) - 1)), list(range(1, len(symbols) + 1))
    pairs: list[tuple[int, int]] = []

    def rank(place: int) -> int:
        """The rank of the pair that begins at a place; -1 without a merge."""
        if place < 0 or not symbols[place] or after[place] == len(symbols):
            return -1
        return merges.get((symbols[place], symbols[after[place]]), -1)

    def add(place: int) -> None:
        found = rank(place)
        if found >= 0:
            heapq.heappush(pairs, (found, place))

    for place in range(len(symbols)):
        add(place)
    while pairs:
        # All pairs of a rank are merged before the new pairs.
        lowest, changed = pairs[0][0], []
        while pairs and pairs[0][0] == lowest:
            _, place = heapq.heappop(pairs)
            if rank(place) == lowest:
                other = after[place]
                symbols[place] += symbols[other]
                symbols[other] = ""
                after[place] = after[other]
                if after[place] < len(symbols):
                    before[after[place]] = place
                changed += [before[place], place]
        for place in changed:
            add(place)
    found = list(filter(None, symbols))
    if found[-1] == END:
        found.pop()
    else:
        found[-1] = found[-1].removesuffix(END)
    return tuple(found)
