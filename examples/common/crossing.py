"""Creates more source sentences of the same kind, by crossing existing ones."""

import random
from collections.abc import Sequence

Sentence = tuple[str, ...]

# Words and marks after which one sentence can continue like another one.
JOINTS = frozenset(
    ", . : ; ( to the of in a and or is for with that on as you from if by can are".split()
)
# Limits in subwords; shorter sentences cannot be split.
SHORTEST, LONGEST = 6, 80
LONGEST_CROSSED = 70
TRIALS = 20  # for each new sentence


def crossed(sentences: Sequence[Sentence], n: int, seed: int) -> list[Sentence]:
    """New sentences: the beginning of one up to a joint, and the rest of another after it.

    Args:
        n: the number of sentences, if that many different ones are found.

    Raises:
        ValueError: if less than half as many are found.
    """
    choose = random.Random(seed)
    parents = [(sentence, joints_of(sentence)) for sentence in sentences]
    parents = [parent for parent in parents if parent[1]]
    endings: dict[str, list[Sentence]] = {}
    for sentence, places in parents:
        for place in places:
            endings.setdefault(sentence[place], []).append(sentence[place:])
    known, new = set(sentences), []
    for _ in range(TRIALS * n if parents else 0):
        if len(new) == n:
            break
        sentence, places = choose.choice(parents)
        place = choose.choice(places)
        other = sentence[:place] + choose.choice(endings[sentence[place]])
        if SHORTEST <= len(other) <= LONGEST_CROSSED and other not in known:
            known.add(other)
            new.append(other)
    if 2 * len(new) < n:
        raise ValueError(f"only {len(new)} of {n} new sentences are found")
    return new


def joints_of(sentence: Sentence) -> list[int]:
    """The positions of a sentence's joints with at least two subwords on either side."""
    if not SHORTEST <= len(sentence) <= LONGEST:
        return []
    return [place for place in range(2, len(sentence) - 2) if sentence[place] in JOINTS]
