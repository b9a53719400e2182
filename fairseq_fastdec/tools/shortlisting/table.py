"""Prunes and writes a lexical table."""

from pathlib import Path

import numpy as np
from fairseq.data import Dictionary

from .. import atomic_files
from .model1 import Translations


def pruned(translations: Translations, n_source: int, threshold: float, best: int) -> Translations:
    """Prune translations, and sort them by source type and descending probability.

    Args:
        n_source: source types from this index on (NULL) are left out.
        threshold: the least probability to keep.
        best: the maximum number of targets per source type.
    """
    worthy = (translations.probabilities >= threshold) & (translations.sources < n_source)
    kept = Translations(*(column[worthy] for column in translations))
    order = np.lexsort((kept.targets, -kept.probabilities, kept.sources))
    kept = Translations(*(column[order] for column in kept))
    rank = np.arange(kept.sources.size) - np.searchsorted(kept.sources, kept.sources)
    return Translations(*(column[rank < best] for column in kept))


def write(path: Path, translations: Translations, source: Dictionary, target: Dictionary) -> None:
    """Write lines ``target source probability``, as in Marian's ``lex.s2t``.

    Raises:
        OSError: if the file cannot be written.
    """
    rows = zip(*(column.tolist() for column in translations))
    atomic_files.write_lines(
        path,
        (
            f"{target[target_type]} {source[source_type]} {probability:.6g}"
            for source_type, target_type, probability in rows
        ),
    )
