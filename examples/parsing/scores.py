"""Scores of parses: exact match and labelled brackets, of the first parse and the best one.

The best parse of a sentence is the one that an oracle would choose (Yang et al. 2020, Table 2).
"""

from collections import Counter
from dataclasses import dataclass

from examples.parsing.trees import brackets


@dataclass
class Scores:
    """Scores of a test set in percent.

    Attributes:
        exact: first parses that are identical to the reference.
        f1: F1 of the labelled brackets of all first parses. Invalid trees have no brackets.
        oracle_exact, oracle_f1: the same for the best parse of each sentence.
    """

    exact: float
    f1: float
    oracle_exact: float
    oracle_f1: float


def score(parses: dict[int, list[str]], references: dict[int, str]) -> Scores:
    """Scores of parses, best first, by sentence number.

    Raises:
        KeyError: for a reference without parses.
    """
    first = {number: parses[number][0] for number in references}
    best = {
        number: max(parses[number], key=lambda parse: _quality(parse, reference))
        for number, reference in references.items()
    }
    return Scores(
        _exact(first, references), _f1(first, references),
        _exact(best, references), _f1(best, references),
    )  # fmt: skip


def _exact(parses: dict[int, str], references: dict[int, str]) -> float:
    same = sum(parses[number] == reference for number, reference in references.items())
    return 100 * same / len(references)


def _f1(parses: dict[int, str], references: dict[int, str]) -> float:
    counts = [_matched(parses[number], reference) for number, reference in references.items()]
    matched, both = (sum(values) for values in zip(*counts))
    return 100 * 2 * matched / both


def _quality(parse: str, reference: str):
    matched, both = _matched(parse, reference)
    return parse == reference, matched / both


def _matched(parse: str, reference: str):
    """The number of brackets that two trees share, and their total number."""
    own = brackets(parse.split()) or Counter()
    expected = brackets(reference.split()) or Counter()
    return (own & expected).total(), own.total() + expected.total()
