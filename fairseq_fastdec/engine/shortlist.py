"""Lexical shortlists: the few target types that can translate a batch.

A decoder's widest product is that with the output layer. With a lexical shortlist only those of its
columns are computed that a table of word translations holds for the words of the batch (Jean et
al., ACL 2015, section 3.3; Marian's ``--shortlist``; the ``vmap`` of CTranslate2).
"""

import functools
import logging
import math
import os
import stat
from array import array
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from fairseq.data import Dictionary

from ..data.special_tokens import EOD

logger = logging.getLogger(__name__)

# The dictionaries must hold both words of at least this share of a table's lines. A table with a
# smaller share belongs to another vocabulary; the two have digits and single letters in common.
LEAST_KNOWN = 0.05
# A table gets a warning if the dictionaries lack a word of more than this share of its lines. Some
# words of the same corpus are always too rare for the dictionaries.
MANY_UNKNOWN = 0.1

# Aligners write this name where a word has no translation; no dictionary has to hold it.
NULL = b"NULL"
# No line with two words is longer. Files that are no text need not have an end of line.
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

    A batch may use the best translations of each of its source types, the types that every
    translation needs (special symbols, and the end of double-token decoding), and the most frequent
    types. Where both languages share a dictionary, source types may also be copied, as in Marian.
    """

    def __init__(self, table: Table, always: Sequence[int], copies: bool) -> None:
        """
        Args:
            always: types that every batch may use.
            copies: whether source types are target types, too.
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
        """Read a table with lines ``target source probability``, as Marian's ``lex.s2t`` has them.

        ``scripts/build_shortlist.py`` writes it, and so do the tools for Marian, from the word
        alignments of fast_align. Lines may come in any order.

        Args:
            first: so many types from the beginning of the target dictionary are always possible.
            best: so many targets of each source type count.
            besides: more target types that are always possible.

        Raises:
            ValueError: for a file that cannot be read, a line that is something else, or a table
                of other words than those of the dictionaries.
        """
        try:
            status = os.stat(path)
            # A directory is an error that opening it names; devices and pipes may never end.
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise ValueError(
                    f"--shortlist {path}: not a regular file; write the table to one and name that"
                )
            modified = status.st_mtime_ns
            table = _read_table(path, modified, tuple(source.symbols), tuple(target.symbols), best)
        except OSError as error:
            raise ValueError(
                f"--shortlist {path}: cannot be read ({error.strerror}); build one with "
                "scripts/build_shortlist.py"
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

    def allow(self, tokens: np.ndarray) -> np.ndarray:
        """The types that a source allows besides those that every batch may use.

        Args:
            tokens: int64 ``[S]``, with padding or without.

        Returns:
            int64 ``[N]``, in any order, some of them perhaps repeatedly.

        Raises:
            IndexError: for tokens that are not in the source dictionary.
        """
        types = np.unique(tokens)
        if types.size and (types[0] < 0 or types[-1] + 1 >= self._table.first.size):
            raise IndexError(
                f"sources of types {types[0]} to {types[-1]}, where the table has "
                f"{self._table.first.size - 1}"
            )
        starts, ends = self._table.first[types], self._table.first[types + 1]
        parts = [self._table.targets[start:end] for start, end in zip(starts, ends)]
        return np.concatenate([types, *parts] if self._copies else parts).astype(np.int64)

    def union(self, types_of_sources: Sequence[np.ndarray]) -> np.ndarray:
        """The types that at least one source or every batch may use: int64 ``[K]``, sorted."""
        return np.unique(np.concatenate([self._always, *types_of_sources]))

    def types_of(self, sources: np.ndarray, prefix: Optional[np.ndarray]) -> list[np.ndarray]:
        """All types that each sentence may use, those of its prefix among them.

        Args:
            sources: int64 ``[B, S]``, with padding or without.
            prefix: int64 ``[B, P]``, or ``None``.

        Returns:
            int64 ``[K]`` for each sentence, sorted.
        """
        forced = np.empty((len(sources), 0), np.int64) if prefix is None else prefix
        return [self.union([self.allow(own), first]) for own, first in zip(sources, forced)]


# The table is kept, since the hub builds a generator for every call.
@functools.lru_cache(maxsize=2)
def _read_table(
    path: str, modified: int, source: tuple[str, ...], target: tuple[str, ...], best: int
) -> Table:
    """The table in a file last ``modified`` then, for dictionaries with these symbols."""
    source_index, target_index = _index_words(source), _index_words(target)
    sources, targets, probabilities = array("i"), array("i"), array("d")
    n_skipped = n_unknown = 0
    with open(path, "rb") as file:
        lines = iter(functools.partial(file.readline, LONGEST_LINE), b"")
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
    """Refuse a table of other words, and warn of one that has many of them.

    Args:
        n_known, n_unknown: lines with both words in the dictionaries, and other lines but for
            those of NULL.

    Raises:
        ValueError: if hardly any line is known, or none.
    """
    n_lines = n_known + n_unknown
    counts = f"{n_known} of {n_lines} lines have both words in the dictionaries"
    if n_known == 0 or n_known < LEAST_KNOWN * n_lines:
        raise ValueError(
            f"--shortlist {path}: {counts}; build one with scripts/build_shortlist.py from this "
            "model's data"
        )
    if n_unknown > MANY_UNKNOWN * n_lines:
        logger.warning(
            "--shortlist %s: only %s (%.0f%%), and the others are left out; was it built from this "
            "model's data?",
            path, counts, 100 * n_known / n_lines,
        )  # fmt: skip


def _index_words(symbols: tuple[str, ...]) -> dict[bytes, int]:
    # Bytes are split at ASCII's white space only. A word may contain Unicode's.
    return {symbol.encode("utf-8"): index for index, symbol in enumerate(symbols)}


def _keep_best(
    sources: np.ndarray, targets: np.ndarray, probabilities: np.ndarray, n_sources: int, best: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best targets of each source type, as :class:`Table` holds them.

    Args:
        sources, targets, probabilities: the lines of a file, ``[N]`` each.
        best: so many targets of each source type stay.

    Returns:
        ``first`` and ``targets`` of the table.
    """
    order = np.lexsort((-probabilities, sources))
    sources, targets = sources[order], targets[order]
    counts = np.bincount(sources, minlength=n_sources)
    rank = np.arange(sources.size) - np.repeat(counts.cumsum() - counts, counts)
    first = np.concatenate([[0], np.minimum(counts, best).cumsum()])
    return first, targets[rank < best].astype(np.int32)
