"""A pool of n-grams: the token that last followed each context."""

from typing import Dict, List, Optional, Tuple

Successors = Dict[Tuple[int, ...], int]


class NgramPool:
    """Remembers the token that last followed each context of 1 to n - 1 tokens.

    Memory is bounded: there are two generations of contexts, and when the younger one is full the
    older one is forgotten.
    """

    def __init__(self, order: int, capacity: int = 500_000) -> None:
        """
        Args:
            order: n, at least 2.
            capacity: contexts in a generation; one takes about 200 bytes.
        """
        self._sizes = range(order - 1, 0, -1)
        self._capacity = capacity
        self._young: Successors = {}
        self._old: Successors = {}

    def learn(self, tokens: List[int], n_new: int) -> None:
        """Learn what the last ``n_new`` tokens followed; there are order - 1 tokens before them."""
        for position in range(len(tokens) - n_new, len(tokens)):
            for size in self._sizes:
                self._young[tuple(tokens[position - size : position])] = tokens[position]
        if len(self._young) > self._capacity:
            self._young, self._old = {}, self._young

    def continued(self, context: List[int], kept: List[int], n_fixed: int) -> List[int]:
        """Guesses for the tokens after a context, as many as ``kept`` has.

        The first ``n_fixed`` of ``kept`` stay; the others give way where the pool knows better.
        """
        tokens = context + kept[:n_fixed]
        for token in kept[n_fixed:]:
            successor = self._successor(tokens)
            tokens.append(token if successor is None else successor)
        return tokens[len(context) :]

    def _successor(self, tokens: List[int]) -> Optional[int]:
        """The token that last followed the longest known context, or ``None``."""
        for size in self._sizes:
            context = tuple(tokens[-size:])
            token = self._young.get(context)
            if token is None:
                token = self._old.get(context)
            if token is not None:
                return token
        return None
