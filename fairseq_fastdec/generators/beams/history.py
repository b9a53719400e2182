"""Beams as back-pointers: nothing is copied when a beam is rearranged."""

from typing import Dict, List, NamedTuple, Tuple

import numpy as np
import torch

from ...engine.kernels.beams import Tracer
from ..constraints import GenerationRules
from ..hypothesis import Hypothesis, hypotheses_of

# There is room for so many lengths from the beginning: few translations are longer.
FEWEST_LENGTHS = 64


class Ends(NamedTuple):
    """Ended hypotheses, one an element ``[H]``: entry ``column`` of length ``length``, then EOS."""

    slots: np.ndarray
    lengths: np.ndarray
    columns: np.ndarray
    scores: np.ndarray  # float32, cumulative, EOS included


class History:
    """All entries that the beams of the sentences under way ever had, ``[slots, length, width]``.

    A slot belongs to one sentence at a time. Length 0 is the token before the first.
    """

    def __init__(self, width: int) -> None:
        self._tokens = np.zeros((0, 0, width), dtype=np.int32)
        self._parents = np.zeros_like(self._tokens)
        self._scores = np.zeros_like(self._tokens, dtype=np.float32)
        self._tracer = Tracer.of()
        self.version = 0  # another number whenever the arrays have grown

    @property
    def n_lengths(self) -> int:
        """The number of lengths that there is room for."""
        return self._tokens.shape[1]

    @property
    def arrays(self) -> Dict[str, np.ndarray]:
        """All arrays by their names in ``cpp/structures.h``."""
        return {"tokens": self._tokens, "parents": self._parents, "scores": self._scores}

    def reserve(self, slots: int, length: int) -> None:
        """Make room for so many slots, and for entries up to that length, by doubling."""
        slots_now, length_now, width = self._tokens.shape
        if slots <= slots_now and length < length_now:
            return
        if slots > slots_now:
            slots_now = max(slots, 2 * slots_now)
        if length >= length_now:
            length_now = max(length + 1, 2 * length_now, FEWEST_LENGTHS)
        for name in ("_tokens", "_parents", "_scores"):
            old = getattr(self, name)
            new = np.zeros((slots_now, length_now, width), dtype=old.dtype)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)
        self.version += 1

    def begin(self, slots: np.ndarray, token: int) -> None:
        """New sentences: one entry of length 0."""
        self._tokens[slots, 0, 0] = token
        self._scores[slots, 0, 0] = 0.0

    def extend(
        self,
        slots: np.ndarray,
        lengths: np.ndarray,
        columns: np.ndarray,
        tokens: np.ndarray,
        parents: np.ndarray,
        scores: np.ndarray,
    ) -> None:
        """Write new entries ``[R]``; ``parents`` are the columns of those that they continue."""
        self._tokens[slots, lengths, columns] = tokens
        self._parents[slots, lengths, columns] = parents
        self._scores[slots, lengths, columns] = scores

    def tokens(self, slots: np.ndarray, lengths: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The last token of each entry: int64 ``[R]``."""
        return self._tokens[slots, lengths, columns].astype(np.int64)

    def scores(self, slots: np.ndarray, lengths: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The cumulative score of each entry: float32 ``[R]``."""
        return self._scores[slots, lengths, columns]

    def hypotheses(
        self, ends: Ends, rules: GenerationRules, device: torch.device
    ) -> List[Hypothesis]:
        """Each ended entry as fairseq's dict, whose tensors are on ``device``."""
        with_end = ends.lengths + 1
        tokens, own = (torch.from_numpy(array).to(device) for array in self._trace(ends, rules.eos))
        scores = rules.normalized(torch.from_numpy(ends.scores), torch.from_numpy(with_end))
        return hypotheses_of(tokens, scores.to(device), own, with_end.tolist())

    def rows(
        self, slots: np.ndarray, lengths: np.ndarray, columns: np.ndarray, eos: int
    ) -> Tuple[np.ndarray, np.ndarray]:
        """All tokens of entries ``[R]``.

        Returns:
            int64 ``[N]``, with other tokens in between, and int64 ``[R]``, where each entry's begin
        """
        nothing = np.zeros(lengths.size, dtype=np.float32)
        tokens, _ = self._trace(Ends(slots, lengths, columns, nothing), eos)
        # Each comes with an EOS.
        return tokens, np.arange(lengths.size) + lengths.cumsum() - lengths

    def _trace(self, ends: Ends, eos: int) -> Tuple[np.ndarray, np.ndarray]:
        """The tokens int64 and their own scores float32 of all ended entries, EOS included.

        Returns:
            ``[N]`` each: one hypothesis behind the other.
        """
        if self._tracer is not None:
            return self._tracer((self._tokens, self._parents, self._scores), ends, eos)
        n, longest = ends.slots.size, int(ends.lengths.max())
        tokens = np.full((n, longest + 1), eos)
        totals = np.zeros((n, longest + 1), dtype=np.float32)
        lengths = np.arange(1, longest + 1)
        there = lengths <= ends.lengths[:, None]
        position = (ends.slots[:, None], lengths, self._ancestors(ends, there))
        tokens[:, :-1] = np.where(there, self._tokens[position], eos)
        totals[:, :-1] = np.where(there, self._scores[position], 0)
        totals[np.arange(n), ends.lengths] = ends.scores
        own = np.diff(totals, axis=1, prepend=np.float32(0))
        with_end = np.arange(longest + 1) <= ends.lengths[:, None]
        return tokens[with_end], own[with_end]

    def _ancestors(self, ends: Ends, there: np.ndarray) -> np.ndarray:
        """The column of each hypothesis' entry of length 1, 2, ...: int ``[H, N]``.

        Args:
            there: bool ``[H, N]``, the lengths that a hypothesis has. Beyond, columns mean nothing.
        """
        columns = np.zeros(there.shape, dtype=np.int64)
        columns[:, -1:] = ends.columns[:, None]
        for length in range(there.shape[1], 1, -1):
            now = columns[:, length - 1]
            parents = self._parents[ends.slots, length, now]
            columns[:, length - 2] = np.where(there[:, length - 1], parents, now)
        return columns
