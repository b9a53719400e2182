"""Beams as back-pointers: nothing is copied when a beam is rearranged."""

from typing import List, NamedTuple

import torch
from torch import Tensor

from .hypothesis import Hypothesis, hypothesis
from .limits import Limits


class Ends(NamedTuple):
    """Ended hypotheses, one an element ``[H]``: entry ``column`` of length ``length``, then EOS."""

    slots: Tensor
    lengths: Tensor
    columns: Tensor
    scores: Tensor  # float32, cumulative, EOS included


class History:
    """All entries that the beams of the sentences under way ever had, ``[slots, length, width]``.

    A slot belongs to one sentence at a time. Length 0 is the token before the first.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self._tokens = torch.zeros(0, 0, width, dtype=torch.int32, device=device)
        self._parents = torch.zeros_like(self._tokens)
        self._scores = torch.zeros_like(self._tokens, dtype=torch.float32)

    def reserve(self, slots: int, length: int) -> None:
        """Make room for so many slots, and for entries up to that length, by doubling."""
        slots_now, length_now, width = self._tokens.shape
        if slots <= slots_now and length < length_now:
            return
        if slots > slots_now:
            slots_now = max(slots, 2 * slots_now)
        if length >= length_now:
            length_now = max(length + 1, 2 * length_now)
        for name in ("_tokens", "_parents", "_scores"):
            old = getattr(self, name)
            new = old.new_zeros(slots_now, length_now, width)
            new[: old.size(0), : old.size(1)] = old
            setattr(self, name, new)

    def begin(self, slots: Tensor, token: int) -> None:
        """New sentences: one entry of length 0."""
        self._tokens[slots, 0, 0] = token
        self._scores[slots, 0, 0] = 0.0

    def extend(
        self,
        slots: Tensor,
        lengths: Tensor,
        columns: Tensor,
        tokens: Tensor,
        parents: Tensor,
        scores: Tensor,
    ) -> None:
        """Write new entries ``[R]``; ``parents`` are the columns of those that they continue."""
        self._tokens[slots, lengths, columns] = tokens.int()
        self._parents[slots, lengths, columns] = parents.int()
        self._scores[slots, lengths, columns] = scores

    def tokens(self, slots: Tensor, lengths: Tensor, columns: Tensor) -> Tensor:
        """The last token of each entry: int64 ``[R]``."""
        return self._tokens[slots, lengths, columns].long()

    def scores(self, slots: Tensor, lengths: Tensor, columns: Tensor) -> Tensor:
        """The cumulative score of each entry: float32 ``[R]``."""
        return self._scores[slots, lengths, columns]

    def hypotheses(self, ends: Ends, limits: Limits) -> List[Hypothesis]:
        """Each ended entry as fairseq's dict."""
        longest = int(ends.lengths.max())
        n = ends.slots.numel()
        tokens = torch.full((n, longest + 1), limits.eos, device=ends.slots.device)
        totals = self._scores.new_zeros(n, longest + 1)
        totals.scatter_(1, ends.lengths[:, None], ends.scores[:, None])
        if longest:
            lengths = torch.arange(1, longest + 1, device=ends.slots.device)
            there = lengths <= ends.lengths[:, None]
            position = (ends.slots[:, None], lengths, self._ancestors(ends, there))
            tokens[:, :-1].copy_(torch.where(there, self._tokens[position], limits.eos))
            totals[:, :-1].copy_(torch.where(there, self._scores[position], totals[:, :-1]))
        own = torch.cat([totals[:, :1], totals[:, 1:] - totals[:, :-1]], dim=1)
        scores = limits.normalized(ends.scores, ends.lengths + 1)
        return [
            hypothesis(
                tokens[index, : length + 1].clone(), scores[index], own[index, : length + 1].clone()
            )
            for index, length in enumerate(ends.lengths.tolist())
        ]

    def _ancestors(self, ends: Ends, there: Tensor) -> Tensor:
        """The column of each hypothesis' entry of length 1, 2, ...: int64 ``[H, N]``.

        Args:
            there: bool ``[H, N]``, the lengths that a hypothesis has. Beyond, columns mean nothing.
        """
        columns = [ends.columns]
        for length in range(there.size(1), 1, -1):
            parents = self._parents[ends.slots, length, columns[-1]].long()
            columns.append(torch.where(there[:, length - 1], parents, columns[-1]))
        return torch.stack(columns[::-1], dim=1)
