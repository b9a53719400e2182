"""Lexical shortlists: the likely target types of a sentence.

The output layer is the decoder's largest product. With a lexical shortlist, it is computed only for
the types that a table of word translations lists for the words of the sentence (Jean et al., ACL
2015, section 3.3; Marian's ``--shortlist``; the ``vmap`` of CTranslate2).
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Optional

import numpy as np


@dataclass(frozen=True)
class Shortlist:
    """The target types that a sentence may use.

    These are the translations of each source type, and types that are always included: special
    symbols and the most frequent types. If both languages share a dictionary, the source types are
    also included, as in Marian.

    Attributes:
        first: int64 ``[V_source + 1]``; the targets of source type s are
            ``targets[first[s] : first[s + 1]]``.
        targets: int32 ``[N]``.
        always: int64, the types that are always included, ascending.
        copies: whether to include the source types.
        multiple: the number of types is rounded up to a multiple of this, by the first types that
            are not included, as Marian does.
        n_special: types before this one are included only by ``always``.
    """

    first: np.ndarray
    targets: np.ndarray
    always: np.ndarray
    copies: bool
    multiple: int = 1
    n_special: int = 0

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
        return [self._types(row, own) for row, own in zip(sources, forced)]

    def content(self) -> dict[str, Any]:
        """The arguments of the constructor, for bundles."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @cached_property
    def _n_types(self) -> int:
        """A number that all target types are below."""
        largest = max(self.targets.max(initial=0), self.always.max(initial=0))
        return max(int(largest) + 1, self.first.size - 1 if self.copies else 0)

    def _types(self, source: np.ndarray, forced: np.ndarray) -> np.ndarray:
        types = sorted(set(source.tolist()))
        if types and (types[0] < 0 or types[-1] + 1 >= self.first.size):
            raise IndexError(
                f"sources with types {types[0]} to {types[-1]}; the table has "
                f"{self.first.size - 1} types"
            )
        largest = max(self._n_types, int(forced.max(initial=0)) + 1)
        found = np.zeros(largest, dtype=bool)
        found[self.always] = True
        found[forced] = True
        for start, end in zip(self.first[types].tolist(), self.first[1:][types].tolist()):
            found[self.targets[start:end]] = True
        if self.copies:
            found[[own for own in types if own >= self.n_special]] = True
        lacking = -int(np.count_nonzero(found)) % self.multiple
        if lacking:
            free = np.flatnonzero(~found[self.n_special :])[:lacking]
            found[self.n_special + free] = True
        return np.flatnonzero(found)
