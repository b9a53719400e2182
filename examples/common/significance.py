"""Significance tests of BLEU scores, for the marks in the papers' tables."""

from collections.abc import Mapping, Sequence

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

LEVEL = 0.05
# sacrebleu's default.
TRIALS = 10_000


def differs(
    translations: Sequence[Mapping[int, str]],
    base: Sequence[Mapping[int, str]],
    lines: Sequence[str],
) -> bool:
    """Whether the BLEU of one system differs significantly from that of another.

    The test is approximate randomisation over the sentences of all seeds (Clark et al., 2011).

    Args:
        translations, base: detokenised, by the sentence's number, for each seed.
        lines: the references of all numbers.
    """
    triples = [
        (own[number], other[number], lines[number])
        for own, other in zip(translations, base)
        for number in sorted(own)
    ]
    # sacrebleu's test finds equal translations significantly different.
    if all(own == other for own, other, _ in triples):
        return False
    own, other, references = map(list, zip(*triples))
    named = [("base", other), ("other", own)]
    _, scores = PairedTest(named, {"BLEU": BLEU()}, [references], n_samples=TRIALS)()
    return scores["BLEU"][1].p_value < LEVEL
