"""Greedy decoding as a system of equations, solved in parallel (Santilli et al., ACL 2023).

The i-th token of greedy decoding is ``y_i = argmax p(y_i | y_1 ... y_{i-1}, x)``. Together these
equations form a triangular system (equation 4). A Jacobi iteration solves all of them at once, with
the tokens of the last iteration on the right-hand side. It reaches greedy decoding's output in at
most m iterations from any initial value (Proposition 1).
"""

from collections.abc import Sequence
from typing import Optional

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.searches import SearchOptions
from ..request import Request
from .generator import SingleHypothesisMethod
from .guesses import guesses_of
from .outputs import OutputBatch, agreeing


class FixedPointMethod(SingleHypothesisMethod):
    """The iteration of Algorithms 1 to 3; subclasses set the number of tokens solved at once.

    Each row solves a block of its next tokens. The block is done when an iteration leaves all fed
    tokens unchanged (equation 5). Like the authors' code, this compares the fed tokens: if they are
    right, so is the answer after the last one.

    Line numbers refer to Algorithm 2.
    """

    # Not the accepted blocks of Stern et al.: a step settles tokens that earlier steps computed.
    block_name = "mean number of tokens settled at once"
    # Whether tokens after an answered EOS are paused. If the EOS is right, they are not needed; if
    # not, they resume when its position has another answer.
    waits_behind_eos = True
    # Whether a final EOS ends the output before its block is done.
    ends_within_block = True

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        # N-grams must not replace answers here: the iteration might not converge.
        self._guesses, self._compiled_guesses = guesses_of(
            self.options, self.source_dictionary, self.dictionary, self.eos, replaces_answers=False
        )

    def horizons(self, request: Request) -> Tensor:
        """The number of tokens of each sentence that are solved in blocks: int64 ``[B]``.

        Later tokens are decoded one by one.
        """
        if request.horizons is not None:
            return torch.as_tensor(request.horizons, device=request.device)
        longest = self.rules.max_len(request.sources.width) + 1
        return torch.full_like(request.sources.lengths, longest)

    @property
    def block_size(self) -> Optional[int]:
        """b of the paper; ``None`` for the whole output."""
        return self.options.jacobi_block_size

    def search_options(self) -> SearchOptions:
        return SearchOptions(
            "jacobi",
            {
                "jacobi_block_size": self.block_size,
                "ends_within_block": self.ends_within_block,
                "waits_behind_eos": self.waits_behind_eos,
                **self._compiled_guesses,
            },
        )

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        self._guesses.begin(batch)
        longest = batch.max_len + 1
        b = longest if self.block_size is None else min(self.block_size, longest)
        horizon = self.horizons(batch.request)
        # Line 1: y <- INITT(x). y holds the latest answers, n_answered of them after each row's
        # output. The last column takes what is not an answer.
        y = last.new_full((batch.n_rows, longest + 1), self.rules.pad)
        n_answered = torch.zeros_like(last)
        while batch.n_rows:
            width = (horizon[batch.sentence] - batch.lengths).clamp(min=1, max=b)
            n_solved = self._n_solved(y, batch.lengths, n_answered, width)
            # Asking a GPU takes longer than solving a few positions in vain.
            most = min(b, batch.most_left(0))
            n_most = int(n_solved.max()) if batch.removes_at_once else most
            offsets = torch.arange(n_most, device=y.device)
            places = batch.lengths[:, None] + offsets
            # Line 5: o <- copy(y), all tokens of the block but the last, with guesses at positions
            # without an answer.
            old = y.gather(1, places[:, :-1].clamp(max=batch.max_len))
            old = old.masked_fill(offsets[:-1] >= n_answered[:, None], self.rules.pad)
            old = self._guesses.fill(batch, old, n_answered.clamp(max=n_most - 1))
            # Line 6: y_{i:i+b} <- argmax p(y_{i:i+b} | y_{1:i+b}, x), all positions in parallel.
            log_probs = batch.log_probs(batch.step(torch.cat([last[:, None], old], 1)), first=0)
            scores, answers = log_probs.max(dim=-1)
            # Line 7: STOPC(o, y). An answer is final if all tokens that it depends on are.
            n_final = torch.minimum(1 + agreeing(old, answers[:, :-1]), n_solved)
            batch.observe(0, old, answers, scores, n_final, n_solved)
            # Lines 8 and 9: i <- i + b, once the block is done.
            is_done = n_final == width
            if self.ends_within_block:
                ends = answers.eq(self.eos) & (offsets < n_final[:, None])
                is_done |= ends.any(dim=1)
            n_taken = torch.where(is_done, n_final, 0)
            is_solved = offsets < n_solved[:, None]
            y.scatter_(1, torch.where(is_solved, places, longest), answers)
            n_answered = torch.maximum(n_answered, n_solved) - n_taken
            newest = answers.gather(1, (n_taken - 1).clamp(min=0)[:, None]).squeeze(1)
            last = torch.where(is_done, newest, last)
            batch.keep(answers, scores, n_taken)
            self._guesses.learn(batch, answers, n_taken)
            last, y, n_answered = batch.without_finished(last, y, n_answered)

    def _n_solved(self, y: Tensor, lengths: Tensor, n_answered: Tensor, width: Tensor) -> Tensor:
        """The number of tokens that each row solves next, at most ``width``: int64 ``[R]``."""
        if not self.waits_behind_eos:
            return width
        places = torch.arange(y.size(1), device=y.device)
        end = (lengths + n_answered)[:, None]
        is_eos = y.eq(self.eos) & (places >= lengths[:, None]) & (places < end)
        up_to_eos = 1 + is_eos.long().argmax(dim=1) - lengths
        return torch.where(is_eos.any(dim=1), torch.minimum(width, up_to_eos), width)
