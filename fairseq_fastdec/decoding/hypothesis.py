"""Hypotheses as fairseq's generators return them."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..engine.searches import Output

Hypothesis = dict[str, Any]
Hypotheses = list[list[Hypothesis]]

# Empty, so safe to share.
NONE = torch.empty(0)


class NotFinite(ValueError):
    """Raised for sentences whose best score is not finite.

    Attributes:
        sentences: their numbers.
        hypotheses: the hypotheses of the whole batch, as the generator would have returned them.
    """

    def __init__(self, sentences: list[int], hypotheses: Hypotheses) -> None:
        super().__init__(
            f"sentences {', '.join(map(str, sentences))}: the score is not finite, so the "
            "translation is meaningless; the model's weights contain NaN or infinity, or values "
            "overflow in half precision: check the checkpoint, or give --engine-precision fp32"
        )
        self.sentences = sentences
        self.hypotheses = hypotheses


def check_finite(hypotheses: Hypotheses, sentences: Sequence[int]) -> None:
    """Raise an error if the best hypothesis of a sentence has no finite score.

    Args:
        sentences: the B numbers by which the error names them.

    Raises:
        NotFinite: for such hypotheses.
    """
    scores = [float(best[0]["score"]) if best else 0.0 for best in hypotheses]
    # A sum is finite only if all its terms are.
    if not math.isfinite(sum(scores)):
        pairs = zip(sentences, scores)
        raise NotFinite([own for own, score in pairs if not math.isfinite(score)], hypotheses)


def hypothesis(tokens: Tensor, score: float, positional_scores: Tensor) -> Hypothesis:
    """fairseq's dict of a hypothesis, with empty attention and alignment.

    Args:
        tokens: int64 ``[m]``, ending in EOS; positional_scores: float32 ``[m]``.
    """
    return {
        "tokens": tokens,
        "score": torch.tensor(score, device=tokens.device),
        "attention": NONE,
        "alignment": NONE,
        "positional_scores": positional_scores,
    }


def hypothesis_of(output: Output) -> Hypothesis:
    """fairseq's dict of the engine's output; its attention is without padding."""
    tokens, scores, score, attention = output
    found = hypothesis(torch.from_numpy(tokens), score, torch.from_numpy(scores))
    if attention is not None:
        found["attention"] = torch.from_numpy(attention).T
    return found


def best_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses of a sentence, sorted by score."""
    return sorted(hypotheses, key=lambda one: one["score"].item(), reverse=True)
