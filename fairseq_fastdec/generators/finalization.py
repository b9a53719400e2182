"""What becomes of the best candidates: final, still growing, waiting, or forgotten.

Both rules look at the candidates of S sentences at once, best first. A candidate has *ended* if its
last token is EOS.
"""

import math
from typing import Callable, Dict, NamedTuple, Union

import torch
from torch import Tensor


class Verdict(NamedTuple):
    """Three disjoint sets of candidates, bool ``[S, C]``; the others are forgotten."""

    final: Tensor  # hypotheses of the result from now on
    active: Tensor  # to be extended
    waiting: Tensor  # ended, but not final while better ones grow


class Rule(NamedTuple):
    """A rule for ended candidates."""

    judge: Callable[..., Verdict]
    candidates_per_entry: int  # how many candidates it wants to see for each entry of the beam
    lets_wait: bool


def _judge_as_fairseq(
    scores: Tensor, ended: Tensor, n_final: Tensor, best_final: Tensor, width: int, threshold: float
) -> Verdict:
    """fairseq's rule: what has ended among the first ``width`` candidates is final at once.

    ``width`` others go on beside it. With an infinite threshold this is fairseq's
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
    among_first = torch.arange(scores.size(1), device=scores.device) < width
    final = _first(kept & ended & among_first, width - n_final)
    active = _first(kept & ~ended, width)
    return Verdict(final, active, torch.zeros_like(final))


def _judge_as_paper(
    scores: Tensor, ended: Tensor, n_final: Tensor, best_final: Tensor, width: int, threshold: float
) -> Verdict:
    """The rule of Yang et al. 2020, appendix A.1: ended candidates stay on the beam.

    They take part there without growing, become final once nothing that still grows is better, and
    may fall off the beam before. Arguments as above.
    """
    exists = scores > -math.inf
    on_beam = exists & (torch.arange(scores.size(1), device=scores.device) < width)
    leading = (on_beam & ended).long().cumprod(dim=1).bool()
    final = _first(leading, width - n_final)
    left = width - n_final - final.sum(dim=1)
    rest = _first(on_beam & ~leading & _within(threshold, scores, best_final), left)
    return Verdict(final, rest & ~ended, rest & ended)


RULES: Dict[str, Rule] = {
    "fairseq": Rule(_judge_as_fairseq, candidates_per_entry=2, lets_wait=False),
    "paper": Rule(_judge_as_paper, candidates_per_entry=1, lets_wait=True),
}


def _within(threshold: float, scores: Tensor, best_final: Tensor) -> Tensor:
    """Absolute threshold pruning (section 4): not worse than the best by more than delta."""
    exists = scores > -math.inf
    if threshold == math.inf:
        return exists
    best = torch.maximum(scores[:, 0], best_final)
    return (scores >= (best - threshold)[:, None]) & exists


def _first(flags: Tensor, n: Union[int, Tensor]) -> Tensor:
    """The first n set flags of each row: one number, or int64 ``[S]``."""
    most = n if isinstance(n, int) else n[:, None]
    return flags & (flags.cumsum(dim=1) <= most)
