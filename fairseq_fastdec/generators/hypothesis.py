"""Hypotheses as fairseq's generators return them."""

from typing import Any, Dict, List

import torch
from torch import Tensor

Hypothesis = Dict[str, Any]
Hypotheses = List[List[Hypothesis]]


def hypothesis(tokens: Tensor, score: Tensor, positional_scores: Tensor) -> Hypothesis:
    """fairseq's dict, without attention and alignment.

    Args:
        tokens: int64 ``[m]``, ending in EOS; score: 0-dim; positional_scores: float32 ``[m]``.
    """
    return {
        "tokens": tokens,
        "score": score,
        "attention": torch.empty(0),
        "alignment": torch.empty(0),
        "positional_scores": positional_scores,
    }
