"""Hypotheses back in the order in which people read them."""

from typing import Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ...data.token_order import TokenOrder, unfolding
from ..hypothesis import Hypotheses, hypothesis


def unfolded(
    tokens: Tensor, scores: Tensor, order: TokenOrder, end: int, dictionary: Dictionary
) -> Tuple[Tensor, Tensor, Tensor]:
    """Natural sentences that end in EOS, with their scores.

    Args:
        tokens: int64 ``[H, N]``, in the order of decoding, ending in ``end`` tokens and padding.
        scores: float32 ``[H, N]``, their log-probabilities, 0 for padding.

    Returns:
        tokens int64 and scores float32 ``[H, N + 1]``, and the lengths with EOS, int64 ``[H]``.
        The score of EOS is that of all end tokens; beyond it nothing means anything.
    """
    is_end = tokens.eq(end)
    positions, lengths = unfolding(~is_end & tokens.ne(dictionary.pad()), order)
    own = torch.nn.functional.pad(tokens.gather(1, positions), (0, 1))
    own_scores = torch.nn.functional.pad(scores.gather(1, positions), (0, 1))
    last = lengths[:, None]
    own.scatter_(1, last, dictionary.eos())
    own_scores.scatter_(1, last, scores.masked_fill(~is_end, 0).sum(dim=1, keepdim=True))
    return own, own_scores, lengths + 1


def in_natural_order(
    hypotheses: Hypotheses, order: TokenOrder, end: int, dictionary: Dictionary
) -> Hypotheses:
    """Hypotheses of any fairseq generator, which are in the order of decoding.

    Attention and alignment, which would be in that order, are empty; all else stays.
    """
    flat = [one for own in hypotheses for one in own]
    if not flat:
        return hypotheses
    tokens, scores, lengths = unfolded(
        pad_sequence([h["tokens"] for h in flat], True, dictionary.pad()),
        pad_sequence([h["positional_scores"] for h in flat], True),
        order,
        end,
        dictionary,
    )
    reordered = iter(
        {**before, **hypothesis(own[:length].clone(), before["score"], own_scores[:length].clone())}
        for before, own, own_scores, length in zip(flat, tokens, scores, lengths.tolist())
    )
    return [[next(reordered) for _ in own] for own in hypotheses]
