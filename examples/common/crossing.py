"""More sources of the same kind: sentences that go over into each other."""

import random
from collections.abc import Sequence

Sentence = tuple[str, ...]

# One sentence can go on behind these words and marks as another one does.
JOINTS = frozenset(
    ", . : ; ( to the of in a and or is for with that on as you from if by can are".split()
)
# Subwords; shorter sentences have no beginning and end of their own.
SHORTEST, LONGEST = 6, 80
LONGEST_CROSSED = 70
TRIALS = 20  # for each new sentence


def crossed(sentences: Sequence[Sentence], n: int, seed: int) -> list[Sentence]:
    """New sentences: the beginning of one up to a joint, and what follows that joint in another.

    Args:
        n: how many, if so many different ones are found.

    Raises:
        ValueError: if next to none are.
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
    """The places to cut a sentence: its joints with at least two subwords on either side."""
    if not SHORTEST <= len(sentence) <= LONGEST:
        return []
    return [place for place in range(2, len(sentence) - 2) if sentence[place] in JOINTS]
