"""N-grams of the outputs so far: the token that last followed each context."""

from typing import Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor

from ...engine.kernels.ngrams import NgramTable

Successors = Dict[Tuple[int, ...], int]

# Contexts of a generation: 12 bytes each in compiled code, some 200 in Python.
CAPACITY = 500_000


def ngram_pools(order: int, eos: int, capacity: int = CAPACITY) -> Union[NgramTable, "NgramPools"]:
    """Pools of n-grams, by compiled code where there is any; arguments as of the class below."""
    return NgramTable.of(order, capacity, eos) or NgramPools(order, eos, capacity)


class NgramPools:
    """Pools as those of :class:`NgramTable`, in Python.

    Memory is bounded: there are two generations of contexts, and when the younger one is full the
    older one is forgotten.
    """

    def __init__(self, order: int, eos: int, capacity: int = CAPACITY) -> None:
        """
        Args:
            order: n of the longest n-grams, at least 2.
            eos: nothing follows it.
            capacity: contexts in a generation.
        """
        self._sizes = range(order - 1, 0, -1)
        self._eos = eos
        self._capacity = capacity
        self.forget()

    def forget(self) -> None:
        """See :meth:`NgramTable.forget`."""
        self._young: Successors = {}
        self._old: Successors = {}

    def open(self, contexts: Tensor, pools: Tensor) -> None:
        """See :meth:`NgramTable.open`."""
        self._contexts, self._pools = contexts.tolist(), pools.tolist()

    def learn(
        self, sentences: Tensor, tokens: Tensor, counts: Tensor, remembers: bool = True
    ) -> None:
        """See :meth:`NgramTable.learn`."""
        for sentence, row, n in zip(*(part.tolist() for part in (sentences, tokens, counts))):
            new = row[:n]
            if self._eos in new:
                new = new[: new.index(self._eos) + 1]
            self._learn(sentence, new, remembers)
        if len(self._young) > self._capacity:
            self._young, self._old = {}, self._young

    def guess(self, sentences: Tensor, given: Tensor, n_given: Tensor) -> Tuple[Tensor, Tensor]:
        """See :meth:`NgramTable.guess`."""
        rows = zip(*(part.tolist() for part in (sentences, given, n_given)))
        found = [self._guess(*row) for row in rows]
        shape = (len(found), 2, given.size(1))
        guesses, sizes = torch.tensor(found, dtype=torch.long).view(shape).unbind(1)
        return guesses, sizes

    def _learn(self, sentence: int, new: List[int], remembers: bool) -> None:
        context = self._contexts[sentence]
        for token in new:
            for size in self._sizes if remembers else ():
                self._young[self._key(sentence, context, size)] = token
            context = [*context[1:], token]
        self._contexts[sentence] = context

    def _guess(self, sentence: int, given: List[int], n_given: int) -> List[List[int]]:
        tokens, sizes = list(self._contexts[sentence]), [0] * len(given)
        n_context = len(tokens)
        for place, token in enumerate(given):
            if place >= n_given:
                token, sizes[place] = self._successor(sentence, tokens) or (token, 0)
            tokens.append(token)
        return [tokens[n_context:], sizes]

    def _successor(self, sentence: int, tokens: List[int]) -> Optional[Tuple[int, int]]:
        """The token that last followed the longest known context, and how long that was."""
        for size in self._sizes:
            key = self._key(sentence, tokens, size)
            token = self._young.get(key, self._old.get(key))
            if token is not None:
                return token, size
        return None

    def _key(self, sentence: int, tokens: List[int], size: int) -> Tuple[int, ...]:
        return (self._pools[sentence], *tokens[-size:])
