"""IBM Model 1 (Brown et al., Computational Linguistics 19(2), 1993, section 4.1).

Every target token comes from one of the source tokens or from NULL, each as likely as the others
before the words are known: ``p(t | s_1 ... s_l) = sum_j p(t | s_j) / (l + 1)``. Expectation and
maximisation find the ``p(t | s)`` that make the corpus most likely; there is one maximum only, so
it does not matter that they begin alike.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .sentences import FlatSentences

# So many cells (pairs of a source and a target token of a sentence) are looked at in one go.
CELLS_AT_ONCE = 1 << 21


class Translations(NamedTuple):
    """``p(targets[i] | sources[i]) = probabilities[i]``, for all words that ever met; ``[N]``.

    Sorted by source and target. The source NULL is the number behind the last source type.
    """

    sources: np.ndarray  # int64
    targets: np.ndarray  # int64
    probabilities: np.ndarray  # float64


class _Cells(NamedTuple):
    """Cells of some sentence pairs, those of a target token side by side.

    ``entries`` int32 ``[M]`` says which probability each has; ``starts`` and ``widths`` int64
    ``[N]``, where those of a target token begin and how many there are.
    """

    entries: np.ndarray
    starts: np.ndarray
    widths: np.ndarray


def train(
    source: FlatSentences,
    target: FlatSentences,
    n_source: int,
    n_target: int,
    iterations: int,
    report: Callable[[int, float], None],
) -> Translations:
    """Expectation and maximisation, ``iterations`` times.

    It keeps 4 bytes for each cell and about 40 for each pair of words that meet.

    Args:
        n_source, n_target: the sizes of the dictionaries.
        report: called with the number of each iteration, and the perplexity of a target token
            before it.
    """
    chunks, keys = _numbered(source.headed_by(n_source), target, n_target)
    sources = keys // n_target
    probabilities = np.full(keys.size, 1 / n_target)
    for iteration in range(1, iterations + 1):
        counts, log_likelihood = _expected_counts(chunks, probabilities)
        report(iteration, float(np.exp(-log_likelihood / max(target.tokens.size, 1))))
        totals = np.bincount(sources, counts)
        probabilities = counts / totals[sources]
    return Translations(sources, keys % n_target, probabilities)


def _expected_counts(chunks: list[_Cells], probabilities: np.ndarray) -> tuple[np.ndarray, float]:
    """The expected counts of word pairs ``[N]``, and the corpus's log-likelihood."""
    counts = np.zeros_like(probabilities)
    log_likelihood = 0.0
    for entries, starts, widths in chunks:
        shares = probabilities[entries]
        totals = np.add.reduceat(shares, starts)
        log_likelihood += float(np.log(totals / widths).sum())
        shares /= np.repeat(totals, widths)
        counts += np.bincount(entries, shares, minlength=counts.size)
    return counts, log_likelihood


def _numbered(
    source: FlatSentences, target: FlatSentences, n_target: int
) -> tuple[list[_Cells], np.ndarray]:
    """All cells, and the keys ``source type * n_target + target type`` of their entries."""
    found = []
    for first, last in _ranges(source.lengths * target.lengths):
        keys, starts, widths = _cells(source, target, n_target, first, last)
        own_keys, own_entries = np.unique(keys, return_inverse=True)
        found.append((own_keys, own_entries.astype(np.int32), starts, widths))
    keys = np.unique(np.concatenate([own for own, *_ in found]))
    chunks = [
        _Cells(np.searchsorted(keys, own).astype(np.int32)[entries], starts, widths)
        for own, entries, starts, widths in found
    ]
    return chunks, keys


def _cells(
    source: FlatSentences, target: FlatSentences, n_target: int, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys of the cells of sentences ``first ... last - 1``, and where tokens' cells lie."""
    n_tokens = target.lengths[first:last]
    widths = np.repeat(source.lengths[first:last], n_tokens)
    starts = widths.cumsum() - widths
    to_source = np.repeat(source.offsets[first:last], n_tokens) - starts
    positions = np.arange(widths.sum()) + np.repeat(to_source, widths)
    targets = target.tokens[target.offsets[first] : target.offsets[last]]
    keys = source.tokens[positions].astype(np.int64) * n_target + np.repeat(targets, widths)
    return keys, starts, widths


def _ranges(n_cells: np.ndarray) -> Iterator[tuple[int, int]]:
    """Consecutive sentence pairs with about so many cells as are looked at in one go."""
    chunk = (n_cells.cumsum() - n_cells) // CELLS_AT_ONCE
    borders = (np.flatnonzero(np.diff(chunk)) + 1).tolist()
    return zip([0, *borders], [*borders, n_cells.size])
