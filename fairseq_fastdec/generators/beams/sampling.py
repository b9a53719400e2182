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
    """The tokens that can be drawn.

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
        """Read fairseq's options; ``None`` without ``--sampling``."""
        if not getattr(args, "sampling", False):
            return None
        topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1)
        return cls(max(topk, 0), max(topp, 0.0), int(torch.randint(2**62, ())))

    def random_states(self, ids: List[int]) -> np.ndarray:
        """The states from which sentences with these numbers draw: uint64 ``[B]``."""
        # Tools seed torch anew for every part of a text.
        seed = (torch.initial_seed() ^ self.nonce) % 2**64
        return mixed(np.full(len(ids), seed, dtype=np.uint64), np.array(ids, np.int64))


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
        self._states = self._sampling.random_states(ids)

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
        beam = np.arange(beams.n_beams).repeat(np.diff(beams.starts[: beams.n_beams + 1]))
        n_draws = np.where(lengths[beam] == 0, self._width, 1)
        row, beam = beams.rows[: beams.n_rows].repeat(n_draws), beam.repeat(n_draws)
        place, length = _places(beam), lengths[beam]
        of_row = np.where(length == 0, place, 0)
        chances = np.zeros((beams.n_rows, n_draws.max()))
        chances[row, of_row] = uniform(mixed(self._states[sentences[beam]], length, place))
        alone, normalized = scores.averaged()
        drawn = self._drawn(alone, constraints, not normalized, torch.from_numpy(chances))
        own, tokens = (part.cpu().numpy()[row, of_row] for part in drawn)
        # Rows of which no token has a probability have no extension.
        there = own > -math.inf
        row, beam, own, tokens = row[there], beam[there], own[there], tokens[there]
        shape, where = (beams.n_beams, self._width), (beam, _places(beam))
        best = Best(
            np.full(shape, -math.inf, dtype=np.float32), *np.zeros((2, *shape), dtype=np.int64)
        )
        best.scores[where] = own + beams.totals[row]
        best.rows[where], best.tokens[where] = row, tokens
        return best

    def _drawn(
        self,
        scores: Tensor,
        constraints: Optional[TokenConstraints],
        normalize: bool,
        chances: Tensor,
    ) -> Tuple[Tensor, Tensor]:
        """Draw tokens of each row.

        Args:
            scores: ``[R, V]``.
            chances: float64 ``[R, N]``, from 0 to below 1.

        Returns:
            log-probabilities float32 and tokens int64, ``[R, N]``
        """
        log_probs = self._chooser.constrained(scores, constraints, normalize)
        of_row, tokens = self._possible(log_probs)
        # Relative to the largest: the end of a sentence that has to end may be as good as
        # impossible. And small probabilities would be lost in sums of float32.
        largest = of_row.amax(dim=1, keepdim=True).clamp(min=torch.finfo(of_row.dtype).min)
        sums = (of_row - largest).exp().cumsum(dim=1, dtype=torch.float64)
        total = sums[:, -1:]
        # A product may be rounded up to the total.
        wanted = torch.minimum(chances.to(total.device) * total, total * (1 - 2**-50))
        place = torch.searchsorted(sums, wanted, right=True).clamp_(max=sums.size(1) - 1)
        return of_row.gather(1, place), place if tokens is None else tokens.gather(1, place)

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


def _places(beam: np.ndarray) -> np.ndarray:
    """The place of each element among those of its beam: int64 ``[D]``, of ascending ones."""
    return np.arange(beam.size) - np.searchsorted(beam, beam)


def uniform(states: np.ndarray) -> np.ndarray:
    """Random states uint64 ``[D]`` as numbers from 0 to below 1."""
    return (states >> np.uint64(11)) * 2.0**-53


def mixed(states: np.ndarray, *numbers: np.ndarray) -> np.ndarray:
    """Random states uint64 ``[D]``: always the same of a state and numbers int64 ``[D]``.

    The mixing function is that of SplitMix64 (Steele, Lea and Flood 2014).
    """
    for number in numbers:
        states = states + number.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        states = states ^ (states >> np.uint64(31))
    return states
