"""Greedy decoding as a system of equations, solved several at a time (Santilli et al. 2023).

Token i of greedy output is ``argmax p(y_i | y_1 ... y_i-1, x)``: a triangular system, which Jacobi
iterations solve exactly, from any first guess (Proposition 1).
"""

from abc import abstractmethod
from typing import Optional, Sequence

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from .base import Generator
from .batch import Batch, one_number
from .drafts import draft_source


class FixedPointGenerator(Generator):
    """The iteration that all Jacobi-like methods share; subclasses say how far and how much.

    A row's window is its next ``width`` positions. An iteration feeds the row's last settled token
    and drafts of the window's tokens, all but its last, and has the model answer every position.
    An answer is final when every draft before it equals the answer at its position; so the first
    one always is, and n iterations settle n tokens or more. Answers that are not taken are the
    next iteration's drafts.
    """

    # Whether a look-up may replace an answer that was not taken. Where a row keeps its answers
    # until the whole window agrees, it must not: the window might never agree.
    drafts_replace_answers = False

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        self._drafts = draft_source(
            self.options,
            self.source_dictionary,
            self.dictionary,
            self.drafts_replace_answers,
        )

    @abstractmethod
    def widths(self, batch: Batch) -> Tensor:
        """How many positions each row's next iteration answers: int64 ``[R]``, at least 1."""

    @abstractmethod
    def taken(self, settled: Tensor, widths: Tensor, answers: Tensor) -> Tensor:
        """How many of its settled answers each row keeps now.

        Args:
            settled: int64 ``[R]``, how many answers are final.
            widths: int64 ``[R]``, from :meth:`widths`; answers: int64 ``[R, T]``.

        Returns:
            int64 ``[R]``, 0 where the row iterates on.
        """

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        last = batch.open(bos, prefix)
        self._drafts.begin(batch)
        # What the last iteration left to go on with: its answers, and how many are the row's own.
        answers = last.new_empty(batch.n_rows, 0)
        n_left = torch.zeros_like(last)
        while batch.n_rows:
            widths = self.widths(batch)
            drafts = self._drafts_of(batch, answers, n_left, int(widths.max()) - 1)
            features = batch.feed(torch.cat([last[:, None], drafts], dim=1))
            scores, answers = batch.answers(features)
            settled = torch.minimum(_agreement(drafts, answers) + 1, widths)
            batch.observe(0, drafts, answers, scores, settled, widths)
            taken = self.taken(settled, widths, answers)
            n_kept = one_number(taken)
            batch.record_blocks(batch.append(answers, scores, n_kept))
            batch.session.commit(n_kept)
            self._drafts.learn(batch, taken)
            newest = answers.gather(1, (taken - 1).clamp(min=0)[:, None]).squeeze(1)
            last = torch.where(taken > 0, newest, last)
            last, answers, n_left = batch.without_finished(
                [last, _shifted(answers, taken), widths - taken]
            )

    def _drafts_of(self, batch: Batch, answers: Tensor, n_left: Tensor, n: int) -> Tensor:
        """Drafts ``[R, n]`` of each row's next n tokens."""
        n_kept = n_left.clamp(max=n)
        kept = answers.new_full((batch.n_rows, n), self.limits.pad)
        n_wide = min(n, answers.size(1))
        kept[:, :n_wide] = answers[:, :n_wide]
        beyond = torch.arange(n, device=n_kept.device) >= n_kept[:, None]
        return self._drafts.fill(batch, kept.masked_fill(beyond, self.limits.pad), n_kept)


def _agreement(drafts: Tensor, answers: Tensor) -> Tensor:
    """How many drafts ``[R, T - 1]`` in a row are what was answered ``[R, T]``: int64 ``[R]``."""
    return drafts.eq(answers[:, :-1]).long().cumprod(dim=1).sum(dim=1)


def _shifted(tokens: Tensor, n: Tensor) -> Tensor:
    """Each row of ``[R, T]`` without its first n tokens; what comes in at the end is arbitrary."""
    positions = n[:, None] + torch.arange(tokens.size(1), device=tokens.device)
    return tokens.gather(1, positions.clamp(max=tokens.size(1) - 1))
