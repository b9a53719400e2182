"""What a beam search knows of each sentence under way, in places that are used again."""

import math
from typing import List

import torch
from torch import Tensor
from torch.nn import functional as F

from .history import Ends


class Slots:
    """A row of every tensor here belongs to one sentence, until it is done and another comes.

    An *ended* candidate is kept as the entry of :class:`~.history.History` that its EOS follows.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        numbers = torch.zeros(0, dtype=torch.long, device=device)
        table = torch.zeros(0, width, dtype=torch.long, device=device)
        self.length = numbers
        self.max_len = numbers
        self.n_forced = numbers  # how many of the first tokens are given
        self.n_waived = numbers  # how many of the first steps know no --min-len
        self.forced = table[:, :0]
        self.n_final = numbers
        self.best_final = numbers.float()
        self.final_scores = table.float()
        self.final_lengths = table
        self.final_columns = table
        self.waiting_scores = table.float()
        self.waiting_lengths = table
        self.waiting_columns = table
        self._free: List[int] = []

    @property
    def n(self) -> int:
        """How many slots there are, in use or free."""
        return self.length.numel()

    def take(self, n: int, prefix: Tensor) -> List[int]:
        """Slots for n new sentences with a prefix ``[n, P]``; there are more slots if need be."""
        wider = prefix.size(1) - self.forced.size(1)
        if wider > 0:
            self.forced = F.pad(self.forced, (0, wider))
        if len(self._free) < n:
            self._grow(max(n, self.n))
        slots, self._free = self._free[:n], self._free[n:]
        self.length[slots] = 0
        self.n_final[slots] = 0
        self.best_final[slots] = -math.inf
        self.waiting_scores[slots] = -math.inf
        return slots

    def give_back(self, slots: List[int]) -> None:
        """These sentences are done."""
        self._free.extend(slots)

    def finish(
        self, slots: Tensor, final: Tensor, scores: Tensor, lengths: Tensor, columns: Tensor
    ) -> None:
        """Add the candidates ``[S, C]`` of slots ``[S]`` that ``final`` marks to the results."""
        sentence, choice = final.nonzero(as_tuple=True)
        place = self.n_final[slots][:, None] + final.long().cumsum(dim=1) - 1
        where = (slots[sentence], place[sentence, choice])
        self.final_scores[where] = scores[sentence, choice]
        self.final_lengths[where] = lengths[sentence, choice]
        self.final_columns[where] = columns[sentence, choice]
        self.n_final[slots] += final.sum(dim=1)
        best = scores.masked_fill(~final, -math.inf).amax(dim=1)
        self.best_final[slots] = torch.maximum(self.best_final[slots], best)

    def wait(
        self, slots: Tensor, waiting: Tensor, scores: Tensor, lengths: Tensor, columns: Tensor
    ) -> None:
        """From now on the candidates ``[S, C]`` that ``waiting`` marks are those that wait."""
        n = scores.size(1)
        self.waiting_scores[slots] = -math.inf
        self.waiting_scores[slots, :n] = scores.masked_fill(~waiting, -math.inf)
        self.waiting_lengths[slots, :n] = lengths
        self.waiting_columns[slots, :n] = columns

    def give_up(self, slots: Tensor) -> None:
        """Sentences for which the model knows no next token (NaN) end where they stand."""
        self.n_final[slots] = 1
        self.final_scores[slots, 0] = -math.inf
        self.final_lengths[slots, 0] = self.length[slots]
        self.final_columns[slots, 0] = 0

    def ends(self, slots: Tensor) -> Ends:
        """The final hypotheses of some sentences, in the order of the sentences."""
        there = torch.arange(self.final_scores.size(1), device=slots.device)
        sentence, place = (there < self.n_final[slots][:, None]).nonzero(as_tuple=True)
        slots = slots[sentence]
        return Ends(
            slots,
            self.final_lengths[slots, place],
            self.final_columns[slots, place],
            self.final_scores[slots, place],
        )

    def _grow(self, n: int) -> None:
        first = self.n
        for name, old in vars(self).items():
            if isinstance(old, Tensor):
                setattr(self, name, torch.cat([old, old.new_zeros(n, *old.shape[1:])]))
        self._free.extend(range(first, first + n))
