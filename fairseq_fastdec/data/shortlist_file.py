"""Lexical shortlists of Marian, ``lex.s2t.bin``: the likely target types of each source type."""

from typing import NamedTuple

import numpy as np

MAGIC = 0xF11A48D5013417F5
FIELDS = 6  # magic, checksum, first, best, number of offsets, number of types
MULTIPLE = 8  # of which the size of a set is one, as in Marian


class Lists(NamedTuple):
    """The target types of each source type, by Marian's numbers.

    Attributes:
        first: the number of the most frequent target types, which every sentence may use.
        offsets: int64 ``[source vocabulary + 1]``; the types of ``w`` are
            ``types[offsets[w]:offsets[w + 1]]``.
        types: uint32 ``[N]``.
    """

    first: int
    offsets: np.ndarray
    types: np.ndarray


def parsed(data: bytes, n_source: int, n_target: int) -> Lists:
    """Read a shortlist.

    Args:
        data: the file's bytes, of which the types are a view.
        n_source, n_target: the sizes of Marian's vocabularies.

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
    return Lists(min(first, n_target), offsets.astype(np.int64), types)
