"""Restores the natural order of tokens in hypotheses."""

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..data.token_order import TokenOrder, unfolding
from .hypothesis import Hypotheses, Hypothesis, hypothesis


def unfolded(
    tokens: np.ndarray, scores: np.ndarray, order: TokenOrder, end: int, dictionary: Dictionary
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hypotheses in natural order, ending in EOS, and their scores.

    Args:
        tokens: int64 ``[H, N]`` in decoding order, followed by ``end`` tokens and padding.
        scores: float32 ``[H, N]``, the log-probabilities, 0 for padding.

    Returns:
        tokens int64 and scores float32 ``[H, N + 1]``, and the lengths with EOS, int64 ``[H]``. The
        score of EOS is the sum over all end tokens. Values after EOS are undefined.
    """
    is_end = tokens == end
    positions, lengths = unfolding(~is_end & (tokens != dictionary.pad()), order)
    numbers = np.arange(lengths.size)
    where, last = (numbers[:, None], positions), (numbers, lengths)
    own, own_scores = (
        np.empty((lengths.size, tokens.shape[1] + 1), dtype=of.dtype) for of in (tokens, scores)
    )
    own[:, :-1], own_scores[:, :-1] = tokens[where], scores[where]
    own[last], own_scores[last] = dictionary.eos(), np.where(is_end, scores, 0).sum(axis=1)
    return own, own_scores, lengths + 1


def in_natural_order(
    hypotheses: Hypotheses, order: TokenOrder, end: int, dictionary: Dictionary
) -> Hypotheses:
    """Reorder the hypotheses of any fairseq generator from decoding order to natural order.

    Attention and alignment, which would be in decoding order, are left empty.
    """
    flat = [one for own in hypotheses for one in own]
    if not flat:
        return hypotheses
    device = flat[0]["tokens"].device
    tokens = _side_by_side([one["tokens"] for one in flat], dictionary.pad())
    scores = _side_by_side([one["positional_scores"] for one in flat], 0)
    tokens, scores, lengths = unfolded(tokens, scores, order, end, dictionary)
    parts = zip(flat, tokens, scores, lengths.tolist())
    reordered = iter(
        {**before, **first_tokens(own, before["score"], own_scores, length, device)}
        for before, own, own_scores, length in parts
    )
    return [[next(reordered) for _ in own] for own in hypotheses]


def first_tokens(
    tokens: np.ndarray, score: Tensor, scores: np.ndarray, length: int, device: torch.device
) -> Hypothesis:
    """fairseq's dict of the first tokens ``[:length]``, copied."""
    parts = (torch.from_numpy(values[:length].copy()).to(device) for values in (tokens, scores))
    return hypothesis(next(parts), score, next(parts))


def _side_by_side(values: list[Tensor], filler: int) -> np.ndarray:
    return pad_sequence(values, True, filler).cpu().numpy()
