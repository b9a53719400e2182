"""N-gram precision at both ends of long sentences: Table 3 of Imamura and Sumita (WAT 2020)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from examples.common.table import markdown

Tokens = Sequence[str]

LONGER_THAN = 30
# The number of tokens at the left and at the right end; None for all.
ENDS = ((None, None), (5, 0), (10, 0), (15, 0), (0, 5), (0, 10), (0, 15))
ORDERS = (1, 4)


def show_precision(text: Path, baseline: dict[int, str], proposed: dict[int, str]) -> str:
    """Print and return the table.

    Args:
        text: the references in subwords, one per line.
        baseline, proposed: hypotheses in subwords, by their number in ``text``.
    """
    references = [line.split() for line in text.read_text(encoding="utf-8").splitlines()]
    long = [i for i, reference in enumerate(references) if len(reference) > LONGER_THAN]
    title = f"Precision, {len(long)} sentences with references of over {LONGER_THAN} subwords."
    if not long:
        text_of_table = title
    else:
        chosen = [references[i] for i in long]
        systems = [[system[i].split() for i in long] for system in (baseline, proposed)]
        rows = [row_of(left, right, chosen, *systems) for left, right in ENDS]
        text_of_table = markdown(title, rows)
    print("\n" + text_of_table)
    return text_of_table


def row_of(
    left: Optional[int],
    right: Optional[int],
    references: list[Tokens],
    baseline: list[Tokens],
    proposed: list[Tokens],
) -> dict[str, str]:
    """One line of the table."""
    row = {"left tokens": shown(left), "right tokens": shown(right)}
    ends = [end(sentence, left, right) for sentence in references]
    for order in ORDERS:
        theirs, own = (
            precision([end(sentence, left, right) for sentence in system], ends, order)
            for system in (baseline, proposed)
        )
        row[f"{order}-gram, single-token L2R"] = f"{theirs:.1%}"
        row[f"{order}-gram, double-token bidir."] = f"{own:.1%} ({own - theirs:+.1%})"
    return row


def shown(n_tokens: Optional[int]) -> str:
    """A number of tokens in the paper's notation."""
    return "∞" if n_tokens is None else str(n_tokens)


def end(tokens: Tokens, left: Optional[int], right: Optional[int]) -> Tokens:
    """The first or the last tokens of a sentence, or all of them."""
    if left is None:
        return tokens
    return tokens[:left] if left else tokens[-right:]


def precision(hypotheses: list[Tokens], references: list[Tokens], order: int) -> float:
    """BLEU's modified precision over the corpus; 0 if there are no n-grams."""
    found = total = 0
    for hypothesis, reference in zip(hypotheses, references):
        own, theirs = ngrams(hypothesis, order), ngrams(reference, order)
        found += sum((own & theirs).values())
        total += sum(own.values())
    return found / max(total, 1)


def ngrams(tokens: Tokens, order: int) -> "Counter[tuple[str, ...]]":
    """The n-grams of a sentence and their counts."""
    return Counter(zip(*(tokens[i:] for i in range(order))))
