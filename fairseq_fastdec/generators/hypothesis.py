"""Hypotheses as fairseq's generators return them."""

from typing import Any, Dict, List

import torch
from torch import Tensor

Hypothesis = Dict[str, Any]
Hypotheses = List[List[Hypothesis]]

# What nobody can write to may be everybody's.
NONE = torch.empty(0)


def hypotheses_of(
    tokens: Tensor, totals: Tensor, positional_scores: Tensor, lengths: List[int]
) -> List[Hypothesis]:
    """fairseq's dicts of H hypotheses that lie one behind the other.

    Args:
        tokens: int64 ``[N]``, each ending in EOS; totals: the scores ``[H]``; positional_scores:
            float32 ``[N]``.
        lengths: how many tokens each has.
    """
    parts = zip(tokens.split(lengths), totals.unbind(), positional_scores.split(lengths))
    return [hypothesis(*part) for part in parts]


def hypothesis(tokens: Tensor, score: Tensor, positional_scores: Tensor) -> Hypothesis:
    """fairseq's dict, without attention and alignment.

    Args:
        tokens: int64 ``[m]``, ending in EOS; score: 0-dim; positional_scores: float32 ``[m]``.
    """
    return {
        "tokens": tokens,
        "score": score,
        "attention": NONE,
        "alignment": NONE,
        "positional_scores": positional_scores,
    }
