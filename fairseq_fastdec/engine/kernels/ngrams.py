"""Tables of n-grams: the token that last followed each context, by compiled code."""

import ctypes
from typing import Optional, Tuple

import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library

# MAX_NGRAM_ORDER of cpp/structures.h.
MAX_ORDER = 64
LEAST_SIZE = 1 << 12


class NgramTable:
    """Remembers the token that last followed each context of 1 to n - 1 tokens.

    Memory is bounded: when the younger of two tables has more than ``capacity`` contexts, the older
    one is forgotten. For one thread at a time.
    """

    def __init__(self, library: Library, order: int, capacity: int, eos: int) -> None:
        """
        Args:
            order: n of the longest n-grams, 2 to 64.
            capacity: contexts in a table.
            eos: nothing follows it.
        """
        self._library = library
        self._order, self._capacity = order, capacity
        self._task = structures.Ngrams(order=order, eos=eos)
        self._address = ctypes.c_void_p(ctypes.addressof(self._task))
        self.forget()

    @classmethod
    def of(cls, order: int, capacity: int, eos: int) -> Optional["NgramTable"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        return None if library is None else cls(library, order, capacity, eos)

    def forget(self) -> None:
        """Forget all contexts."""
        self._task.old = structures.NgramTable()
        self._replace_young(LEAST_SIZE)

    def open(self, contexts: Tensor, pools: Tensor) -> None:
        """Begin with other sentences.

        Args:
            contexts: int64 ``[B, order - 1]``, the last tokens of each; -1 where there are fewer.
            pools: int64 ``[B]``; sentences of different pools learn nothing from each other.
        """
        contexts, pools = contexts.clone().contiguous(), pools.clone().contiguous()
        task, n_sentences = self._task, pools.numel()
        n_context = n_sentences * (self._order - 1)
        task.contexts = problems.address(contexts, n_context, "contexts")
        task.pools = problems.address(pools, n_sentences, "pools")
        task.n_sentences = n_sentences
        self._sentences = (contexts, pools)

    def learn(
        self, sentences: Tensor, tokens: Tensor, counts: Tensor, remembers: bool = True
    ) -> None:
        """Learn that sentences have grown by the first of these tokens, up to the first EOS.

        Args:
            sentences: int64 ``[R]``; tokens: int64 ``[R, T]``; counts: int64 ``[R]``, how many.
            remembers: whether to guess by them later; if not, only contexts grow.
        """
        self._take(sentences, tokens, counts)
        self._task.remembers = remembers
        problem = self._library.learn_ngrams(self._address)
        if problem == problems.OUT_OF_SCRATCH:
            self._grow(tokens.numel() * (self._order - 1))
            problem = self._library.learn_ngrams(self._address)
        problems.check(problem)
        if self._task.young.used > self._capacity:
            self._task.old, self._old = self._task.young, self._young
            self._replace_young(LEAST_SIZE)

    def guess(self, sentences: Tensor, given: Tensor, n_given: Tensor) -> Tuple[Tensor, Tensor]:
        """Guess the next N tokens of sentences.

        Args:
            sentences: int64 ``[R]``.
            given: int64 ``[R, N]``, guesses for places whose contexts are all unknown.
            n_given: int64 ``[R]``, how many of these stay whatever the table knows.

        Returns:
            the guesses, int64 ``[R, N]``; and the length of the context that each followed, int64
            ``[R, N]``, 0 for given ones.
        """
        self._take(sentences, given, n_given)
        guesses, sizes = torch.empty_like(given), torch.empty_like(given)
        self._task.guesses, self._task.sizes = guesses.data_ptr(), sizes.data_ptr()
        problems.check(self._library.guess_tokens(self._address))
        return guesses, sizes

    def _take(self, sentences: Tensor, tokens: Tensor, counts: Tensor) -> None:
        task = self._task
        task.n_rows, task.n = tokens.shape
        task.sentences = problems.address(sentences, task.n_rows, "sentences")
        task.tokens = problems.address(tokens, task.n_rows * task.n, "tokens")
        task.counts = problems.address(counts, task.n_rows, "numbers of tokens")

    def _grow(self, n_more: int) -> None:
        """Make room for so many contexts more."""
        # The copies keep the memory that is read.
        contexts, full = self._young, structures.NgramTable.from_buffer_copy(self._task.young)
        size = full.size
        while size // 2 < full.used + n_more:
            size *= 2
        self._replace_young(size)
        sides = ctypes.byref(full), ctypes.byref(self._task, structures.Ngrams.young.offset)
        problems.check(self._library.copy_ngrams(*sides))
        del contexts

    def _replace_young(self, size: int) -> None:
        """Take an empty table of so many places, of which half may be used."""
        contexts = torch.zeros(size, dtype=torch.long)
        tokens = torch.zeros(size, dtype=torch.int32)
        self._task.young = structures.NgramTable(
            contexts=contexts.data_ptr(), tokens=tokens.data_ptr(), size=size
        )
        self._young = (contexts, tokens)
