"""Sampling (``--sampling``): candidates are extended by random tokens, as in fairseq.

A beam of k then holds k samples that do not compete. Samples depend on the seed, the sentence
number, the length and the sample's place in the beam, but not on the other sentences of a batch.
"""

import math
from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor


class Draws:
    """Samples tokens by their probabilities.

    Attributes:
        topk, topp: see the arguments.
    """

    def __init__(self, topk: int, topp: float) -> None:
        """
        Args:
            topk: sample from this many of the most probable tokens; 0 for all.
            topp: sample from the smallest set of most probable tokens whose probabilities add up to
                this; 0 for all. It overrides ``topk``, as in fairseq.
        """
        self.topk, self.topp = topk, topp
        self._nonce = int(torch.randint(2**62, ()))
        self._states: Sequence[int] = ()

    def options(self) -> dict[str, Any]:
        """The options of the compiled search."""
        return {"sampling": True, "sampling_topk": self.topk, "sampling_topp": self.topp}

    @classmethod
    def from_args(cls, args: Any) -> Optional["Draws"]:
        """Read fairseq's options; ``None`` without ``--sampling``."""
        if not getattr(args, "sampling", False):
            return None
        topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1)
        return cls(max(topk, 0), max(topp, 0.0))

    def states(self, ids: Sequence[int]) -> list[int]:
        """The random states of sentences with these numbers, which are unique in a run."""
        # Tools reseed torch for every part of a text.
        seed = (torch.initial_seed() ^ self._nonce) % 2**64
        return [mixed(seed, number) for number in ids]

    def begin(self, ids: Sequence[int]) -> None:
        """Set the sentences of a new batch."""
        self._states = self.states(ids)

    def draw(
        self, log_probs: Tensor, sentence: int, length: int, places: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Draw a token for each of several samples from one distribution.

        Args:
            log_probs: float32 ``[V]``.
            sentence: its index in :meth:`begin`; length: of the hypotheses to extend; places: of
                the samples in their beam.

        Returns:
            log-probabilities float32 and tokens int64, ``[len(places)]``
        """
        scores, tokens = self._possible(log_probs)
        # Relative to the largest, since EOS may be the only possible token and very improbable.
        largest = scores.max().clamp(min=torch.finfo(scores.dtype).min)
        sums = (scores - largest).exp().cumsum(dim=0, dtype=torch.float64)
        states = [mixed(self._states[sentence], length, place) for place in places]
        chances = sums.new_tensor([uniform(state) for state in states])
        # Avoid that rounding makes the product equal to the sum.
        wanted = torch.minimum(chances * sums[-1], sums[-1] * (1 - 2**-50))
        drawn = torch.searchsorted(sums, wanted, right=True).clamp(max=sums.numel() - 1)
        return scores[drawn], tokens[drawn]

    def _possible(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens that can be drawn, with their log-probabilities; ``-inf`` if excluded."""
        if self.topp > 0:
            scores, tokens = log_probs.sort(descending=True, stable=True)
            # A token is possible if the tokens before it do not add up to p.
            before = scores.exp().cumsum(dim=0).roll(1)
            before[0] = 0
            return scores.masked_fill(before >= self.topp, -math.inf), tokens
        if self.topk > 0:
            return log_probs.topk(min(self.topk, log_probs.numel()))
        return log_probs, torch.arange(log_probs.numel(), device=log_probs.device)


def mixed(state: int, *numbers: int) -> int:
    """A random state of 64 bits that depends on another state and on numbers.

    The mixing function is that of SplitMix64 (Steele, Lea and Flood 2014).
    """
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state


def uniform(state: int) -> float:
    """A random state as a number in [0, 1)."""
    return (state >> 11) * 2.0**-53
