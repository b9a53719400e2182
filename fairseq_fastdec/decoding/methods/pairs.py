"""Hypotheses of pairs, and the sentences that they stand for.

Sections and names are those of Imamura and Sumita (WAT 2020).
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...data.token_order import TokenOrder
from ..constraints import prefix_lengths


@dataclass(eq=False)
class PairHypothesis:
    """A left and a right token for each step, behind each other.

    Attributes:
        tokens, scores: y_L1, y_R1, y_L2, y_R2, ... and their log-probabilities.
        total: the sum of the scores.
        row: the row of the network that holds it, or held the hypothesis that it extends.
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
        """Whether both end the same sentence: the pairs (token, end) and (end, token) do."""
        mine, theirs = ([y for y in own.tokens[-2:] if y != end] for own in (self, other))
        return self.row == other.row and other.has_ended(end) and mine == theirs

    def natural(self, order: TokenOrder, end: int, eos: int) -> tuple[list[int], list[float]]:
        """The sentence in its natural order, with EOS at its end, and the tokens' scores.

        A token beside an end token belongs to the sentence. EOS has the score of all end tokens.
        """
        slots = [slot for slot, token in enumerate(self.tokens) if token != end]
        if order.name == "bidirectional":
            # Left tokens from the beginning on, right tokens from the end on.
            right = [slot for slot in slots if slot % 2]
            slots = [slot for slot in slots if slot % 2 == 0] + right[::-1]
        elif order.name == "r2l":
            slots = slots[::-1]
        of_ends = sum(own for own, token in zip(self.scores, self.tokens) if token == end)
        tokens = [self.tokens[slot] for slot in slots]
        return tokens + [eos], [self.scores[slot] for slot in slots] + [of_ends]


@dataclass(eq=False)
class PairBeam:
    """One sentence.

    Attributes:
        number: the sentence's place in its batch.
        forced: what the first slots must hold; padding where any token may stand.
        beam: B_t, best first. It begins with a hypothesis of no pairs.
        ended: H, the K-best translation hypotheses.
        expansions: how many hypotheses were expanded, over all steps.
    """

    number: int
    forced: list[int]
    beam: list[PairHypothesis] = field(default_factory=lambda: [PairHypothesis([], [], 0.0)])
    ended: list[PairHypothesis] = field(default_factory=list)
    expansions: int = 0


def forced_slots(prefix: Tensor, eos: int, end: int, pad: int) -> Tensor:
    """The tokens that the first slots must hold so that sentences begin with a prefix.

    Args:
        prefix: int64 ``[B, P]``, padded on the right; it may hold EOS.
        end: the token that ends decoding.

    Returns:
        int64 ``[B, P]``, or one column more if P is odd; padding where any token may stand

    Raises:
        ValueError: for padding before or inside a prefix.
    """
    prefix_lengths(prefix, pad)
    forced = prefix.masked_fill(prefix.eq(eos), end)
    forced = torch.nn.functional.pad(forced, (0, prefix.size(1) % 2), value=pad)
    # An end token on the left has another one beside it.
    forced[:, 1::2] = torch.where(forced[:, ::2].eq(end), end, forced[:, 1::2])
    return forced
