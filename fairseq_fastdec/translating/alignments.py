"""Alignments of subwords, from the attention of a decoder to the source.

``hard`` alignments are pairs of a source and a target subword, numbered from 0 as in
``Translation.source_tokens`` and ``tokens``: each target subword with the source subword that has
the largest attention when it was chosen. ``soft`` ones are these probabilities: for each target
subword and EOS, those of the source subwords, followed by the sum of the others, which are EOS and
the tokens of languages.
"""

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from .generation_options import shown
from .results import Alignment

HARD, SOFT = "hard", "soft"
KINDS = {False: None, True: HARD, HARD: HARD, SOFT: SOFT}


def kind_of(alignment: Any) -> Optional[str]:
    """The alignments that the option ``alignment`` of a call asks for; ``None`` for none.

    Raises:
        ValueError: for an invalid value.
    """
    if not isinstance(alignment, (bool, str)) or alignment not in KINDS:
        raise ValueError(f"alignment {shown(alignment)}: must be True, False, 'hard' or 'soft'")
    return KINDS[alignment]


def aligned(
    attention: np.ndarray, sources: Sequence[int], targets: Sequence[int], kind: str
) -> Alignment:
    """The alignment of a hypothesis.

    Args:
        attention: fp32 ``[m, n]``; the last of the m tokens is EOS.
        sources, targets: the places of source and target subwords, ascending.
        kind: ``hard`` or ``soft``.
    """
    if kind == HARD:
        if not sources or not targets:
            return []
        best = attention[_places(targets)][:, _places(sources)].argmax(axis=1)
        return list(zip(best.tolist(), range(len(targets))))
    rows = attention[[*targets, len(attention) - 1]]
    own = rows[:, sources]
    others = rows.sum(axis=1, keepdims=True) - own.sum(axis=1, keepdims=True)
    return np.concatenate([own, others.clip(min=0)], axis=1).tolist()


def _places(numbers: Sequence[int]) -> Any:
    """An index of consecutive numbers, which is faster than a list of them."""
    first, end = numbers[0], numbers[-1] + 1
    return slice(first, end) if end - first == len(numbers) else numbers
