"""Table 3 of Imamura and Sumita (WAT 2020): n-gram precision at both ends of long sentences."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any, Optional

from examples.common.table import mean, origins, untitled

from .models import BASELINE, PROPOSED

Tokens = Sequence[str]

# The name of the section in the page.
SECTION = "double-token table 3"
LONGER_THAN = 30
# The number of tokens at the left and at the right end, None for all; and the paper's precision of
# 1-grams and 4-grams with single-token L2R, and its difference to bidirectional (WMT14 en-de).
ENDS = {
    (None, None): ("59.8% (+0.1%)", "18.9% (-0.7%)"),
    (5, 0): ("53.8% (±0.0%)", "16.8% (-0.6%)"),
    (10, 0): ("49.1% (-0.1%)", "15.1% (-0.6%)"),
    (15, 0): ("45.1% (-0.1%)", "13.7% (-0.5%)"),
    (0, 5): ("62.9% (+1.6%)", "14.7% (+0.6%)"),
    (0, 10): ("62.2% (+0.8%)", "16.5% (+0.3%)"),
    (0, 15): ("61.8% (+0.4%)", "16.7% (-0.1%)"),
}
ORDERS = (1, 4)


def precisions(hypotheses: dict[int, str], references: dict[int, str]) -> dict[str, Any]:
    """The precision of long sentences for each order and end.

    Args:
        hypotheses, references: in subwords, by the sentence's number.
    """
    split = {i: reference.split() for i, reference in references.items()}
    long = [i for i, reference in split.items() if len(reference) > LONGER_THAN]
    pairs = [(hypotheses[i].split(), split[i]) for i in long]
    rows = [[round(precision(pairs, *ends, order), 5) for ends in ENDS] for order in ORDERS]
    return {"sentences": len(long), "precision": rows}


def precision(
    pairs: list[tuple[Tokens, Tokens]], left: Optional[int], right: Optional[int], order: int
) -> float:
    """BLEU's modified precision of hypotheses, both sides cut; 0 if there are no n-grams."""
    found = total = 0
    for pair in pairs:
        own, theirs = (ngrams(end(tokens, left, right), order) for tokens in pair)
        found += sum((own & theirs).values())
        total += sum(own.values())
    return found / max(total, 1)


def end(tokens: Tokens, left: Optional[int], right: Optional[int]) -> Tokens:
    """The first or the last tokens of a sentence, or all of them."""
    if left is None:
        return tokens
    return tokens[:left] if left else tokens[-right:]


def ngrams(tokens: Tokens, order: int) -> "Counter[tuple[str, ...]]":
    """The n-grams of a sentence and their counts."""
    return Counter(zip(*(tokens[i:] for i in range(order))))


def section(figures: list[dict[str, Any]]) -> str:
    """The table of all seeds, with where it is from."""
    runs = {row["method"]: row["seeds"] for row in figures if "precision" in row["seeds"][0]}
    baseline, proposed = runs[BASELINE], runs[PROPOSED]
    title = (
        "Precision of single-token L2R, and in parentheses what bidirectional decoding changes.\n"
        f"{baseline[0]['sentences']} sentences with references of over {LONGER_THAN} subwords; "
        f"means and standard deviations over seeds ({len(baseline)})."
    )
    rows = []
    for i, ((left, right), papers) in enumerate(ENDS.items()):
        row = {"left tokens": shown(left), "right tokens": shown(right)}
        for j, order in enumerate(ORDERS):
            theirs, own = (
                [100 * seed["precision"][j][i] for seed in seeds] for seeds in (baseline, proposed)
            )
            row[f"{order}-gram, the paper"] = papers[j]
            change = mean([b - a for a, b in zip(theirs, own)], digits=1, sign="+")
            row[f"{order}-gram"] = f"{statistics.mean(theirs):.1f}% ({change}%)"
        rows.append(row)
    return f"{origins([*baseline, *proposed])}\n\n{title}\n\n{untitled(rows)}\n"


def shown(n_tokens: Optional[int]) -> str:
    """A number of tokens in the paper's notation."""
    return "∞" if n_tokens is None else str(n_tokens)
