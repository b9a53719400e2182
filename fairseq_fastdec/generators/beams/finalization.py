"""The best candidates become final, go on growing, wait, or are forgotten.

Both rules look at the candidates of S sentences at once, best first. A candidate has *ended* if its
last token is EOS.
"""

import math
from typing import Callable, Dict, NamedTuple, Union

import numpy as np


class Verdict(NamedTuple):
    """Three disjoint sets of candidates, bool ``[S, C]``; the others are forgotten."""

    final: np.ndarray  # hypotheses of the result from now on
    active: np.ndarray  # to be extended
    waiting: np.ndarray  # ended, but not final while better ones grow


class Finalization(NamedTuple):
    """A rule for ended candidates."""

    judge: Callable[..., Verdict]
    candidates_per_entry: int  # the number of candidates that it needs for each entry of the beam
    lets_wait: bool  # whether an ended candidate can wait on the beam


def _judge_as_fairseq(
    scores: np.ndarray,
    ended: np.ndarray,
    n_final: np.ndarray,
    best_final: np.ndarray,
    width: int,
    threshold: float,
) -> Verdict:
    """fairseq's rule: what has ended among the first ``width`` candidates is final at once.

    Beside it ``width`` others go on. With an infinite threshold this is fairseq's
    ``SequenceGenerator``.

    Args:
        scores: float32 ``[S, C]``, cumulative log-probabilities, sorted; ``-inf``: no candidate.
        ended: bool ``[S, C]``.
        n_final, best_final: how many final hypotheses each sentence has, and the best cumulative
            score among them, ``[S]``.
        width: K.
        threshold: delta; a candidate that is worse by more than that than the best of all, final
            ones included, is forgotten.
    """
    kept = _within(threshold, scores, best_final)
    among_first = np.arange(scores.shape[1]) < width
    final = _first(kept & ended & among_first, width - n_final)
    active = _first(kept & ~ended, width)
    return Verdict(final, active, np.zeros_like(final))


def _judge_as_paper(
    scores: np.ndarray,
    ended: np.ndarray,
    n_final: np.ndarray,
    best_final: np.ndarray,
    width: int,
    threshold: float,
) -> Verdict:
    """The rule of Yang et al. 2020, appendix A.1: ended candidates stay on the beam.

    They take part there without growing, become final once nothing that still grows is better, and
    may fall off the beam before. Arguments as above.
    """
    exists = scores > -math.inf
    leading = np.logical_and.accumulate(exists & ended, axis=1)
    final = _first(leading, width - n_final)
    left = width - n_final - final.sum(axis=1)
    rest = _first(~leading & _within(threshold, scores, best_final), left)
    return Verdict(final, rest & ~ended, rest & ended)


FINALIZATIONS: Dict[str, Finalization] = {
    "fairseq": Finalization(_judge_as_fairseq, candidates_per_entry=2, lets_wait=False),
    "paper": Finalization(_judge_as_paper, candidates_per_entry=1, lets_wait=True),
}


def _within(threshold: float, scores: np.ndarray, best_final: np.ndarray) -> np.ndarray:
    """Absolute threshold pruning (section 4): not worse than the best by more than delta."""
    exists = scores > -math.inf
    if threshold == math.inf:
        return exists
    best = np.maximum(scores[:, 0], best_final)
    return (scores >= (best - threshold)[:, None]) & exists


def _first(flags: np.ndarray, n: Union[int, np.ndarray]) -> np.ndarray:
    """The first n set flags of each row: one number, or int64 ``[S]``."""
    most = n if isinstance(n, int) else n[:, None]
    return flags & (flags.cumsum(axis=1) <= most)
