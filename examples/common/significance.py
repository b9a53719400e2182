"""Significance tests of BLEU scores, for the marks in the paper's Table 2."""

from collections.abc import Mapping, Sequence

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

LEVEL = 0.05
# sacrebleu's default.
TRIALS = 10_000


def significantly_different(systems: dict[str, list[str]], references: list[str], than: str) -> set:
    """The systems whose BLEU differs significantly from one of them (approximate randomisation).

    Args:
        systems: detokenised translations by the system's name.
        than: the name of the system to compare with.
    """
    base = systems[than]
    # sacrebleu's test finds equal translations significantly different.
    others = {name: texts for name, texts in systems.items() if texts != base}
    if not others:
        return set()
    named = [(than, base), *others.items()]
    _, scores = PairedTest(named, {"BLEU": BLEU()}, [references], n_samples=TRIALS)()
    p_values = {name: result.p_value for name, result in zip(scores["System"], scores["BLEU"])}
    return {name for name, p in p_values.items() if p is not None and p < LEVEL}


def differs(translations: Mapping[int, str], base: Mapping[int, str], lines: Sequence[str]) -> bool:
    """Whether the BLEU of translations differs significantly from that of others.

    Args:
        translations, base: by the sentence's number.
        lines: the references of all numbers.
    """
    numbers = sorted(translations)
    systems = {
        name: [own[number] for number in numbers]
        for name, own in (("base", base), ("other", translations))
    }
    references = [lines[number] for number in numbers]
    return "other" in significantly_different(systems, references, than="base")
