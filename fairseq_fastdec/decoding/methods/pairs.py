"""Hypotheses of token pairs.

Sections and names refer to Imamura and Sumita (WAT 2020).
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..constraints import prefix_lengths


@dataclass(eq=False)
class PairHypothesis:
    """A left and a right token for each step, interleaved.

    Attributes:
        tokens, scores: y_L1, y_R1, y_L2, y_R2, ... and their log-probabilities.
        total: the sum of the scores.
        row: its row in the network, or that of the hypothesis that it extends.
    """

    tokens: list[int]
    scores: list[float]
    total: float
    row: int = 0

    def extended(self, tokens: tuple[int, int], scores: tuple[float, float]) -> "PairHypothesis":
        """The hypothesis with one more pair."""
        total = self.total + scores[0] + scores[1]
        return PairHypothesis([*self.tokens, *tokens], [*self.scores, *scores], total, self.row)

    def has_ended(self, end: int) -> bool:
        """Whether one of the tokens of the last pair is the end token."""
        return end in self.tokens[-2:]

    def ends_like(self, other: "PairHypothesis", end: int) -> bool:
        """Whether both end the same sentence, as the pairs (token, end) and (end, token) do."""
        mine, theirs = ([y for y in own.tokens[-2:] if y != end] for own in (self, other))
        return self.row == other.row and other.has_ended(end) and mine == theirs


@dataclass(eq=False)
class PairBeam:
    """The beam of one sentence.

    Attributes:
        number: the sentence's place in its batch.
        forced: the tokens that the first slots must hold; padding allows any token.
        beam: B_t, best first. It starts with an empty hypothesis.
        ended: H, the K-best translation hypotheses.
        expansions: the number of hypotheses expanded over all steps.
    """

    number: int
    forced: list[int]
    beam: list[PairHypothesis] = field(default_factory=lambda: [PairHypothesis([], [], 0.0)])
    ended: list[PairHypothesis] = field(default_factory=list)
    expansions: int = 0


def forced_slots(prefix: Tensor, eos: int, end: int, pad: int) -> Tensor:
    """The tokens that force sentences to begin with a prefix, by slot.

    Args:
        prefix: int64 ``[B, P]``, padded on the right; it may contain EOS.
        end: the token that ends decoding.

    Returns:
        int64 ``[B, P]``, with one more column if P is odd; padding allows any token

    Raises:
        ValueError: for padding before or inside a prefix.
    """
    prefix_lengths(prefix, pad)
    forced = prefix.masked_fill(prefix.eq(eos), end)
    forced = torch.nn.functional.pad(forced, (0, prefix.size(1) % 2), value=pad)
    # An end token on the left is paired with another one.
    forced[:, 1::2] = torch.where(forced[:, ::2].eq(end), end, forced[:, 1::2])
    return forced
