"""Lexical shortlists: restrict the target types to likely translations of a batch.

The output layer is the decoder's largest product. With a lexical shortlist, it is computed only for
the types that a table of word translations lists for the words of the batch (Jean et al., ACL 2015,
section 3.3; Marian's ``--shortlist``; the ``vmap`` of CTranslate2).
"""

import functools
import logging
import math
import os
from array import array
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from fairseq.data import Dictionary

from ..data.text import check_can_be_read_again, without_mark
from ..orders.special_tokens import EOD

logger = logging.getLogger(__name__)

# The smallest share of a table's lines with both words in the dictionaries. With a smaller share,
# the table belongs to another vocabulary that only shares digits and single letters.
LEAST_KNOWN = 0.05
# The share of lines with unknown words above which there is a warning. Some words of a corpus are
# always too rare for its dictionaries.
MANY_UNKNOWN = 0.1

# Aligners write this for a word without a translation; it need not be in the dictionaries.
NULL = b"NULL"
# The maximum length of a line, for files that are not text and may have no line breaks.
LONGEST_LINE = 1 << 16


class Table(NamedTuple):
    """A lexical table: the targets of source type s are ``targets[first[s] : first[s + 1]]``.

    ``first`` is int64 ``[V_source + 1]``, ``targets`` int32 ``[N]``, best first; ``n_skipped``
    lines of the file had words that are not in the dictionaries.
    """

    first: np.ndarray
    targets: np.ndarray
    n_skipped: int


class Shortlist:
    """The target types that the sentences of a batch may use.

    These are the best translations of each source type, special symbols (including the end of
    double-token decoding), and the most frequent types. If both languages share a dictionary, the
    source types are also included, as in Marian.
    """

    def __init__(self, table: Table, always: Sequence[int], copies: bool) -> None:
        """
        Args:
            always: the types that are always included.
            copies: whether to include the source types.
        """
        self._table = table
        self._always = np.asarray(sorted(always), dtype=np.int64)
        self._copies = copies

    @classmethod
    def load(
        cls,
        path: str,
        source: Dictionary,
        target: Dictionary,
        first: int = 100,
        best: int = 100,
        besides: Sequence[int] = (),
    ) -> "Shortlist":
        """Read a table with lines ``target source probability``, as in Marian's ``lex.s2t``.

        ``build-shortlist`` and Marian's tools write such a file from the word alignments
        of fast_align. Lines may be in any order.

        Args:
            first: the number of types at the beginning of the target dictionary that are always
                included.
            best: the maximum number of targets of each source type.
            besides: more target types that are always included.

        Raises:
            ValueError: if the file cannot be read, if a line has another format, or if the table
                belongs to other dictionaries.
        """
        try:
            # Every generator reads it, and reading devices and pipes may never end.
            check_can_be_read_again("--shortlist", path)
            modified = os.stat(path).st_mtime_ns
            table = _read_table(path, modified, tuple(source.symbols), tuple(target.symbols), best)
        except OSError as error:
            raise ValueError(
                f"--shortlist {path}: cannot be read ({error.strerror}); build one with "
                "`python -m fairseq_fastdec build-shortlist`"
            ) from error
        n_known = int((np.diff(table.first) > 0).sum())
        logger.debug(
            "--shortlist %s: %d targets of %d of %d source types; skipped %d lines with words that "
            "are not in the dictionaries",
            path, table.targets.size, n_known, len(source), table.n_skipped,
        )  # fmt: skip
        always = {*range(min(target.nspecial + first, len(target))), *besides}
        if EOD in target:
            always.add(target.index(EOD))
        return cls(table, sorted(always), copies=source == target)

    def types_of(self, sources: np.ndarray, prefix: Optional[np.ndarray]) -> list[np.ndarray]:
        """All types that each sentence may use, including those of its prefix.

        Args:
            sources: int64 ``[B, S]``, with or without padding.
            prefix: int64 ``[B, P]``, or ``None``.

        Returns:
            int64 ``[K]`` for each sentence, sorted.

        Raises:
            IndexError: for tokens that are not in the source dictionary.
        """
        forced = np.empty((len(sources), 0), np.int64) if prefix is None else prefix
        return [
            np.unique(np.concatenate([self._always, first, *self._translations(row)]))
            for row, first in zip(sources, forced)
        ]

    def _translations(self, tokens: np.ndarray) -> list[np.ndarray]:
        """The types that the table lists for the tokens of a source, int64 ``[S]``."""
        types = np.unique(tokens)
        if types.size and (types[0] < 0 or types[-1] + 1 >= self._table.first.size):
            raise IndexError(
                f"sources with types {types[0]} to {types[-1]}; the table has "
                f"{self._table.first.size - 1} types"
            )
        starts, ends = self._table.first[types], self._table.first[types + 1]
        parts = [self._table.targets[start:end] for start, end in zip(starts, ends)]
        return [types, *parts] if self._copies else parts


# Cached, since the hub builds a generator for every call.
@functools.lru_cache(maxsize=2)
def _read_table(
    path: str, modified: int, source: tuple[str, ...], target: tuple[str, ...], best: int
) -> Table:
    """The table in a file, for dictionaries with these symbols; ``modified`` is a cache key."""
    source_index, target_index = _index_words(source), _index_words(target)
    sources, targets, probabilities = array("i"), array("i"), array("d")
    n_skipped = n_unknown = 0
    with open(path, "rb") as file:
        lines = without_mark(iter(functools.partial(file.readline, LONGEST_LINE), b""))
        for number, line in enumerate(lines, start=1):
            try:
                target_word, source_word, text = line.split()
                probability = float(text)
            except ValueError:
                probability = math.nan
            if not 0 <= probability < math.inf:
                raise ValueError(
                    f"--shortlist {path}, line {number}: not 'target source probability'"
                )
            source_type, target_type = source_index.get(source_word), target_index.get(target_word)
            if source_type is None or target_type is None:
                n_skipped += 1
                n_unknown += NULL not in (source_word, target_word)
                continue
            sources.append(source_type)
            targets.append(target_type)
            probabilities.append(probability)
    _check_words(path, len(sources), n_unknown)
    columns = (np.array(sources), np.array(targets), np.array(probabilities))
    return Table(*_keep_best(*columns, len(source), best), n_skipped)


def _check_words(path: str, n_known: int, n_unknown: int) -> None:
    """Reject a table of another vocabulary, and warn of one with many unknown words.

    Args:
        n_known: the number of lines with both words in the dictionaries.
        n_unknown: the number of other lines, except those with NULL.

    Raises:
        ValueError: if (almost) no line has both words in the dictionaries.
    """
    n_lines = n_known + n_unknown
    counts = f"{n_known} of {n_lines} lines have both words in the dictionaries"
    if n_known == 0 or n_known < LEAST_KNOWN * n_lines:
        raise ValueError(
            f"--shortlist {path}: {counts}; build one with "
            "`python -m fairseq_fastdec build-shortlist` from this model's data"
        )
    if n_unknown > MANY_UNKNOWN * n_lines:
        logger.warning(
            "--shortlist %s: only %s (%.0f%%), and the others are ignored; was it built from this "
            "model's data?",
            path, counts, 100 * n_known / n_lines,
        )  # fmt: skip


def _index_words(symbols: tuple[str, ...]) -> dict[bytes, int]:
    # Bytes, since they are split at ASCII white space only; words may contain Unicode white space.
    return {symbol.encode("utf-8"): index for index, symbol in enumerate(symbols)}


def _keep_best(
    sources: np.ndarray, targets: np.ndarray, probabilities: np.ndarray, n_sources: int, best: int
) -> tuple[np.ndarray, np.ndarray]:
    """Select the best targets of each source type.

    Args:
        sources, targets, probabilities: the lines of a file, ``[N]`` each.
        best: the maximum number of targets of each source type.

    Returns:
        ``first`` and ``targets`` of :class:`Table`.
    """
    order = np.lexsort((-probabilities, sources))
    sources, targets = sources[order], targets[order]
    counts = np.bincount(sources, minlength=n_sources)
    rank = np.arange(sources.size) - np.repeat(counts.cumsum() - counts, counts)
    first = np.concatenate([[0], np.minimum(counts, best).cumsum()])
    return first, targets[rank < best].astype(np.int32)
