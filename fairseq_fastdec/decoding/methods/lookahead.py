"""Lookahead decoding: Jacobi iterations in a sliding window, with guesses from n-grams.

In a step of Jacobi decoding (Santilli et al. 2023), an answer is final if all tokens before it were
right. Here the window of w tokens advances past all final answers immediately, instead of waiting
for its block. Guesses come from a pool of n-grams, as in Fu et al. (2024, "Break the sequential
dependency of LLM inference using lookahead decoding"). Their pool holds the answers of all
iterations; this one holds outputs. Without an n-gram, the guess is the last step's answer, as in
Jacobi decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.searches import SearchOptions
from ..option_rules import option
from .generator import SingleHypothesisMethod
from .given_drafts import GivenDrafts, opened, verified
from .guesses import Guesses, guesses_of
from .outputs import OutputBatch


@dataclass
class LookaheadOptions:
    """The size of the window."""

    lookahead_window: int = option(
        6,
        "lookahead: size of the window, the number of tokens answered per step",
        methods=("lookahead",),
        at_least=1,
    )


class Lookahead(SingleHypothesisMethod):
    """Feeds one certain token and guesses, and keeps the longest prefix that is right."""

    verifies_drafts = True

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        self._window = self.options.lookahead_window
        self._guesses, self._compiled_guesses = guesses_of(
            self.options, self.source_dictionary, self.dictionary, self.eos, replaces_answers=True
        )

    def search_options(self) -> SearchOptions:
        return SearchOptions(
            "blocks",
            {
                "lookahead_window": self._window,
                "by_time": self.options.proposes_by_time,
                **self._compiled_guesses,
            },
        )

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        # Guesses never saved time in torch, which does not measure it.
        window = 1 if self.options.proposes_by_time else self._window
        decode_in_windows(batch, last, window, self._guesses, self.given_drafts)


def decode_in_windows(
    batch: OutputBatch,
    last: Tensor,
    window: int,
    guesses_of_method: Guesses,
    given: GivenDrafts,
) -> None:
    """Feed each row its certain next token and guesses or drafts; keep those that are right.

    Args:
        last: int64 ``[R]``, the first token to feed to each row.
        window: the maximum number of tokens per block, unless a given draft has more.
        given: drafts that take precedence over the method's.
    """
    guesses_of_method.begin(batch)
    given.begin(batch)
    # The first window begins after ``last``, which is already in the outputs.
    n_proposals = min(window, batch.most_left(0)) - 1
    unanswered = last.new_full((batch.n_rows, n_proposals), batch.rules.pad)
    proposals = guesses_of_method.fill(batch, unanswered, torch.zeros_like(last))
    proposals = given.put_first(batch, _within_limits(batch, proposals, first=0))
    _, scores, answers, n_right = opened(batch, last, proposals, given)
    while True:
        # The answers to right tokens are final. The last of them is certain but not appended yet.
        guesses_of_method.learn(batch, answers, 1 + n_right)
        row = torch.arange(batch.n_rows, device=last.device)
        certain, certain_score = answers[row, n_right], scores[row, n_right]
        n_guesses = given.n_proposed(batch, n_proposals) - n_right
        known = batch.without_ended(certain, certain_score, answers, n_right, n_guesses)
        certain, certain_score, answers, n_right, n_guesses = known
        if not batch.n_rows:
            break
        # The answers to wrong tokens are guesses for the tokens after the certain one.
        n_proposals = min(window, batch.most_left(1)) - 1
        offsets = torch.arange(n_proposals, device=last.device)
        places = 1 + n_right[:, None] + offsets
        guesses = answers.gather(1, places.clamp(max=answers.size(1) - 1))
        guesses = guesses.masked_fill(offsets >= n_guesses[:, None], batch.rules.pad)
        proposals = guesses_of_method.fill(batch, guesses, n_guesses, certain)
        proposals = given.put_first(batch, _within_limits(batch, proposals, first=1), certain)
        # Verify: feed the certain token and its proposals.
        _, scores, answers, n_right = verified(batch, certain, proposals, given, first=1)
        # Accept: keep the certain token and the proposals that are right.
        block = torch.cat([certain[:, None], proposals], dim=1)
        block_scores = torch.cat([certain_score[:, None], scores[:, :-1]], dim=1)
        batch.keep(block, block_scores, 1 + n_right)


def _within_limits(batch: OutputBatch, proposals: Tensor, first: int) -> Tensor:
    """Drafts ``[R, N]`` with PAD beyond the longest output allowed, since rows differ in length."""
    n_left = batch.max_len - first - batch.lengths
    is_beyond = torch.arange(proposals.size(1), device=proposals.device) >= n_left[:, None]
    return proposals.masked_fill(is_beyond, batch.rules.pad)
