"""Sampling: each row is extended by a token drawn at random (``--sampling``), as fairseq draws it.

A beam of K then holds K samples that know nothing of each other. What is drawn depends on the seed
and on the sentence's number, length and samples, and not on the sentences beside it.
"""

import math
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ...engine import Scores
from ..constraints import TokenConstraints
from ..top_tokens import Beams, Best, Chooser, best_of_each

# The best tokens of so many types are tried first for --sampling-topp, and then more and more.
FIRST_TRY, FACTOR = 256, 8


class Sampling(NamedTuple):
    """Which tokens can be drawn.

    Attributes:
        topk: so many of the best ones; 0 for all.
        topp: the fewest best ones whose probabilities are at least that together; 0 for all. Where
            both are given this one counts, as in fairseq.
        nonce: of this generator, from torch's random numbers.
    """

    topk: int
    topp: float
    nonce: int

    @classmethod
    def from_args(cls, args: Any) -> Optional["Sampling"]:
        """What fairseq's options ask for; ``None`` without ``--sampling``."""
        if not getattr(args, "sampling", False):
            return None
        topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1)
        return cls(max(topk, 0), max(topp, 0.0), int(torch.randint(2**62, ())))


class Sampler:
    """Draws the extensions of beams."""

    def __init__(self, sampling: Sampling, chooser: Chooser, width: int) -> None:
        """
        Args:
            width: K, the number of samples of each sentence.
        """
        self._sampling = sampling
        self._chooser = chooser
        self._width = width
        self.begin([])

    def begin(self, ids: List[int]) -> None:
        """Draw for other sentences from now on, which have these numbers in the whole run."""
        self._ids = np.array(ids, dtype=np.int64)
        # Tools seed torch anew for every part of a text.
        self._seed = (torch.initial_seed() ^ self._sampling.nonce) % 2**64

    def extensions(
        self,
        scores: Scores,
        beams: Beams,
        sentences: np.ndarray,
        lengths: np.ndarray,
        constraints: Optional[TokenConstraints],
    ) -> Best:
        """Extend each row by a token; the one row of a beam without tokens by K.

        Args:
            scores: of the rows, ``[R, V]``.
            sentences, lengths: int64 ``[S]``, the place of each beam's sentence in :meth:`begin`,
                and how many tokens its rows have.
            constraints: see :meth:`Chooser.choose_by_row`.

        Returns:
            the extensions of each beam by the order of its rows, ``[S, K]``
        """
        n_beams = beams.n_beams
        starts = beams.starts[: n_beams + 1]
        beam = np.arange(n_beams).repeat(np.diff(starts))
        n_draws = np.where(lengths[beam] == 0, self._width, 1)
        row, beam = beams.rows[: beams.n_rows].repeat(n_draws), beam.repeat(n_draws)
        place = np.arange(row.size) - np.searchsorted(beam, beam)
        alone, normalized = scores.averaged()
        chances = uniform(self._seed, self._ids[sentences[beam]], lengths[beam], place)
        own, tokens = self._drawn(alone, constraints, not normalized, row, chances)
        best = Best(
            np.full((n_beams, self._width), -math.inf, dtype=np.float32),
            np.zeros((n_beams, self._width), dtype=np.int64),
            np.zeros((n_beams, self._width), dtype=np.int64),
        )
        # Rows without a token that has a probability end: behind them there are no gaps.
        there = own > -math.inf
        row, beam, own, tokens = row[there], beam[there], own[there], tokens[there]
        where = (beam, np.arange(row.size) - np.searchsorted(beam, beam))
        best.scores[where] = own + beams.totals[row]
        best.rows[where], best.tokens[where] = row, tokens
        return best

    def _drawn(
        self,
        scores: Tensor,
        constraints: Optional[TokenConstraints],
        normalize: bool,
        rows: np.ndarray,
        chances: np.ndarray,
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Draw a token of each of the ``rows``, int64 ``[D]``.

        Args:
            scores: ``[R, V]``.
            chances: float64 ``[D]``, from 0 to 1.

        Returns:
            log-probabilities float32 and tokens int64, ``[D]``
        """
        log_probs = self._chooser.constrained(scores, constraints, normalize)
        of_row, tokens = self._possible(log_probs)
        row = torch.from_numpy(rows).to(log_probs.device)
        chance = torch.from_numpy(chances).to(log_probs.device)
        # Relative to the largest: the end of a sentence that has to end may be as good as
        # impossible. And small probabilities would be lost in sums of float32.
        largest = of_row.amax(dim=1, keepdim=True).clamp(min=torch.finfo(of_row.dtype).min)
        sums = (of_row - largest).exp().cumsum(dim=1, dtype=torch.float64)
        total = sums[row, -1]
        # A product may be rounded up to the total.
        wanted = torch.minimum(chance * total, total * (1 - 2**-50))
        place = torch.searchsorted(sums[row], wanted[:, None], right=True).squeeze(1)
        place = place.clamp_(max=sums.size(1) - 1)
        own = of_row[row, place]
        token = place if tokens is None else tokens[row, place]
        return own.cpu().numpy(), token.cpu().numpy()

    def _possible(self, log_probs: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """The tokens that can be drawn.

        Returns:
            log-probabilities float32 ``[R, n]``, and the tokens int64 ``[R, n]`` (``None``: all)
        """
        n_types = log_probs.size(1)
        if self._sampling.topp > 0:
            return self._most_probable(log_probs, n_types)
        if 0 < self._sampling.topk < n_types:
            return best_of_each(log_probs, self._sampling.topk)
        return log_probs, None

    def _most_probable(self, log_probs: Tensor, n_types: int) -> Tuple[Tensor, Tensor]:
        topp, n = self._sampling.topp, min(FIRST_TRY, n_types)
        while True:
            best, tokens = best_of_each(log_probs, n)
            sums = best.exp().cumsum(dim=1)
            if n == n_types or bool((sums[:, -1] >= topp).all()):
                break
            n = min(FACTOR * n, n_types)
        # Those before the sum is reached, and the one that reaches it.
        before = torch.nn.functional.pad(sums[:, :-1], (1, 0))
        return best.masked_fill(before >= topp, -math.inf), tokens


def uniform(seed: int, *numbers: np.ndarray) -> np.ndarray:
    """A random number from 0 to below 1 for each of the tuples ``[D]``: always the same one.

    The mixing function is that of SplitMix64 (Steele, Lea and Flood 2014).
    """
    state = _mixed(np.full_like(numbers[0], 0, dtype=np.uint64) + np.uint64(seed))
    for number in numbers:
        state = _mixed(state + number.astype(np.uint64))
    return (state >> np.uint64(11)) * 2.0**-53


def _mixed(state: np.ndarray) -> np.ndarray:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
