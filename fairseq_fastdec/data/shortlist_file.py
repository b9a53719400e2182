"""Lexical shortlists of Marian, ``lex.s2t.bin``: the likely target types of each source type."""

from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

MAGIC = 0xF11A48D5013417F5
FIELDS = 6  # magic, checksum, first, best, number of offsets, number of types
MULTIPLE = 8  # of which the size of a set is one, as in Marian


@dataclass(frozen=True)
class LexicalShortlist:
    """The target types that a sentence may use.

    Attributes:
        first: the number of the most frequent target types, which every sentence may use.
        n_target: the size of the target vocabulary.
        offsets: int64 ``[source vocabulary + 1]``; the types of ``w`` are
            ``types[offsets[w]:offsets[w + 1]]``.
        types: uint32, by Marian's numbers.
        is_shared: source and target have one vocabulary, so that source types are target types.
        rows, numbers: if the vocabularies were renumbered, Marian's number of each source type and
            the new number of each target type, int64.
    """

    first: int
    n_target: int
    offsets: np.ndarray
    types: np.ndarray
    is_shared: bool
    rows: Optional[np.ndarray] = None
    numbers: Optional[np.ndarray] = None

    def types_of(self, source: np.ndarray) -> np.ndarray:
        """The target types of a sentence or of a batch: int64, sorted, without repetitions.

        They are the first types, those of all source types, with one vocabulary the source types
        themselves, and the next unused ones up to a multiple of 8.

        Args:
            source: int64 types of any shape; new types, which Marian's vocabulary does not have,
                count as absent.
        """
        words = np.unique(source)
        if self.rows is not None:
            words = self.rows[words]
            words = words[words >= 0]
        found = np.zeros(self.n_target, dtype=bool)
        found[: self.first] = True
        for begin, end in zip(self.offsets[words], self.offsets[words + 1]):
            found[self.types[begin:end]] = True
        if self.is_shared:
            found[words] = True
        count = np.count_nonzero(found)
        # So many first types have a sufficient number of unused ones, or are all.
        free = np.flatnonzero(~found[: count + MULTIPLE])
        found[free[: -count % MULTIPLE]] = True
        types = np.flatnonzero(found)
        return types if self.numbers is None else np.sort(self.numbers[types])

    def renumbered(self, source: np.ndarray, target: np.ndarray) -> "LexicalShortlist":
        """The same shortlist for vocabularies in another order.

        Args:
            source, target: int64, the new number of each of Marian's types.
        """
        rows = np.full(source.max(initial=-1) + 1, -1, dtype=np.int64)
        rows[source] = np.arange(len(source))
        return replace(self, rows=rows, numbers=np.asarray(target, dtype=np.int64))


def parsed(data: bytes, n_source: int, n_target: int, is_shared: bool) -> LexicalShortlist:
    """Read a shortlist.

    Args:
        data: the file's bytes, which the shortlist keeps.
        n_source, n_target: the sizes of Marian's vocabularies.
        is_shared: source and target have one vocabulary.

    Raises:
        ValueError: if the sizes do not agree with each other, or the numbers with the vocabularies.
    """
    start = 8 * FIELDS
    if len(data) < start or int.from_bytes(data[:8], "little") != MAGIC:
        raise ValueError("is not a binary shortlist of Marian")
    _, _, first, _, n_offsets, n_types = np.frombuffer(data, "<u8", FIELDS).tolist()
    if start + 8 * n_offsets + 4 * n_types != len(data):
        raise ValueError(f"has {len(data)} bytes; is it whole?")
    if n_offsets != n_source + 1:
        raise ValueError(f"is for {n_offsets - 1} source types; the vocabulary has {n_source}")
    offsets = np.frombuffer(data, "<u8", n_offsets, offset=start)
    types = np.frombuffer(data, "<u4", n_types, offset=start + 8 * n_offsets)
    if offsets[0] != 0 or offsets[-1] != n_types or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("has offsets that are not in order")
    if n_types and types.max() >= n_target:
        raise ValueError(f"names target types beyond the {n_target} of the vocabulary")
    return LexicalShortlist(
        min(first, n_target), n_target, offsets.astype(np.int64), types, is_shared
    )
