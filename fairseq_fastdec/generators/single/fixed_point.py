"""Greedy decoding as a system of equations, solved several at a time (Santilli et al. 2023).

Token i of greedy output is ``argmax p(y_i | y_1 ... y_i-1, x)``: a triangular system, which Jacobi
iterations solve exactly, from any first guess (Proposition 1).
"""

from abc import abstractmethod
from typing import Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from .batch import Batch, one_number
from .generator import SingleHypothesisGenerator


class FixedPointGenerator(SingleHypothesisGenerator):
    """The iteration that all Jacobi-like methods share (Algorithm 1); subclasses set its pace.

    A row's window is its next ``width`` positions. An iteration feeds the row's last settled token
    and drafts of the window's tokens, all but its last, and has the model answer every position.
    An answer is final when every draft before it equals the answer at its position; so the first
    one always is, and n iterations settle n tokens or more. Answers that are not taken are the
    next iteration's drafts.

    A row ends at its first settled EOS. So positions behind an answered EOS are of use only if that
    answer is wrong; :meth:`gives_up_behind_eos` says whether they wait until it is.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        # A look-up must not replace an answer that was not taken. Where a row keeps its answers
        # until the whole window agrees, the window might never agree.
        self._drafts = self.draft_source(replace_answers=False)

    @abstractmethod
    def widths(self, batch: Batch) -> Tensor:
        """The number of positions in each row's next window: int64 ``[R]``, at least 1."""

    def gives_up_behind_eos(self) -> bool:
        """Whether positions behind an answered EOS wait until that position's answer changes.

        The output stays greedy's. How many iterations it takes can change either way: drafts
        behind a wrong EOS are older.
        """
        return False

    @abstractmethod
    def taken(self, settled: Tensor, widths: Tensor, answers: Tensor) -> Tensor:
        """The number of its settled answers that each row keeps now.

        Args:
            settled: int64 ``[R]``, how many answers are final.
            widths: int64 ``[R]``, from :meth:`widths`; answers: int64 ``[R, T]``.

        Returns:
            int64 ``[R]``, 0 where the row iterates on.
        """

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        last = batch.open(bos, prefix)
        self._drafts.begin(batch)
        # The newest answers to the first n_known positions of each row's window.
        known = last.new_empty(batch.n_rows, 0)
        n_known = torch.zeros_like(last)
        while batch.n_rows:
            # Initialise: answers of the last iteration, and drafts where there are none.
            widths = self.widths(batch)
            reach = self._reach(widths, known, n_known)
            drafts = self._drafts_of(batch, known, n_known, int(reach.max()) - 1)
            # Iterate: solve every equation of the window for its own token.
            features = batch.feed(torch.cat([last[:, None], drafts], dim=1))
            scores, answers = batch.answers(features)
            # Stop: an equation is solved where all tokens that it was given are right.
            settled = torch.minimum(_count_agreeing(drafts, answers) + 1, reach)
            batch.observe(0, drafts, answers, scores, settled, reach)
            taken = self.taken(settled, widths, answers)
            batch.keep(answers, scores, one_number(taken))
            self._drafts.learn(batch, answers, taken)
            # Go on behind the tokens that were taken.
            newest = answers.gather(1, (taken - 1).clamp(min=0)[:, None]).squeeze(1)
            last = torch.where(taken > 0, newest, last)
            known, n_known = self._renew(known, n_known, answers, reach)
            last, known, n_known = batch.without_finished(
                last, _shifted(known, taken), n_known - taken
            )

    def _reach(self, widths: Tensor, known: Tensor, n_known: Tensor) -> Tensor:
        """The number of positions of its window that each row has answered next: int64 ``[R]``.

        Positions behind an answered EOS wait. If the EOS is right, nobody needs them; if not, they
        are back with their last drafts as soon as the position of the EOS has another answer.
        """
        if not self.gives_up_behind_eos():
            return widths
        offsets = torch.arange(known.size(1), device=known.device)
        is_eos = known.eq(self.eos) & (offsets < n_known[:, None])
        up_to_eos = 1 + is_eos.long().cumsum(dim=1).eq(0).sum(dim=1)
        return torch.minimum(widths, torch.where(is_eos.any(dim=1), up_to_eos, widths))

    def _renew(
        self, known: Tensor, n_known: Tensor, answers: Tensor, reach: Tensor
    ) -> Tuple[Tensor, Tensor]:
        """The newest answers to a window's positions, and how many positions have one.

        Args:
            known: int64 ``[R, N]``, the older ones; the first ``n_known`` ``[R]`` are answers.
            answers: int64 ``[R, T]``, of which the first ``reach`` ``[R]`` are the row's own.

        Returns:
            int64 ``[R, max(N, T)]`` and ``[R]``
        """
        if not self.gives_up_behind_eos():
            return answers, reach
        n_old = known.size(1)
        newest = torch.cat([answers, known[:, answers.size(1) :]], dim=1)
        waits = torch.arange(n_old, device=reach.device) >= reach[:, None]
        newest[:, :n_old] = torch.where(waits, known, newest[:, :n_old])
        return newest, torch.maximum(n_known, reach)

    def _drafts_of(self, batch: Batch, known: Tensor, n_known: Tensor, n: int) -> Tensor:
        """Drafts ``[R, n]`` of each row's next n tokens."""
        n_kept = n_known.clamp(max=n)
        kept = known.new_full((batch.n_rows, n), self.rules.pad)
        n_wide = min(n, known.size(1))
        kept[:, :n_wide] = known[:, :n_wide]
        beyond = torch.arange(n, device=n_kept.device) >= n_kept[:, None]
        return self._drafts.fill(batch, kept.masked_fill(beyond, self.rules.pad), n_kept)


def _count_agreeing(drafts: Tensor, answers: Tensor) -> Tensor:
    """The number of drafts ``[R, T - 1]`` before the first that is not the answer ``[R, T]``."""
    return drafts.eq(answers[:, :-1]).long().cumprod(dim=1).sum(dim=1)


def _shifted(tokens: Tensor, n: Tensor) -> Tensor:
    """Each row of ``[R, T]`` without its first n tokens; what comes in at the end is arbitrary."""
    positions = n[:, None] + torch.arange(tokens.size(1), device=tokens.device)
    return tokens.gather(1, positions.clamp(max=tokens.size(1) - 1))
