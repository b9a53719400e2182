"""The proposals of the heads p_2 ... p_k, which p_1 verifies.

The heads of Stern et al. (2018) are parallel: each predicts its token without knowing the others.
Sequential heads read the tokens before their own, as in Hydra (Ankner et al. 2024).
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from .outputs import OutputBatch


def chain_of(
    batch: OutputBatch, features: Tensor, next_tokens: Tensor, n_heads: int, confidence: float
) -> Tensor:
    """The most probable token of each head, one after the other (section 3, predict).

    Args:
        features: ``[R, C]``, at the last position of each row.
        next_tokens: int64 ``[R]``, p_1's prediction there.
        n_heads: k.
        confidence: the least probability of a chain, by the heads' own estimate. A chain ends
            with the token that brings it below, and is padded. Sequential heads stop when the mean
            probability of the rows' chains falls below it, on a CPU. 0 for no limit.

    Returns:
        int64 ``[R, N]``, padded
    """
    network, chain = batch.network, [next_tokens[:, None]]
    if n_heads == 1:
        return chain[0][:, :0]
    if not network.has_sequential_heads:
        log_probs = batch.limited(network.head_log_probs(features, n_heads), range(1, n_heads))
        scores, proposals = _best(log_probs, batch.rules.eos)
    else:
        states = network.begin_drafts(features)
        scores = torch.zeros_like(chain[0], dtype=torch.float32)[:, :0]
        for depth in range(1, n_heads):
            states = network.extend_drafts(states, chain[-1])
            log_probs = batch.limited(network.draft_log_probs(states), [depth])
            score, tokens = _best(log_probs, batch.rules.eos)
            chain.append(tokens)
            scores = torch.cat([scores, score], dim=1)
            # Not on a GPU, where asking takes longer than the other heads.
            may_stop = confidence and batch.removes_at_once
            if may_stop and not scores.sum(dim=1).exp().mean() >= confidence:
                break
        proposals = torch.cat(chain[1:], dim=1)
    before = pad(scores, (1, -1)).cumsum(dim=1)
    goes_on = before.ne(-math.inf) & before.exp().ge(confidence)
    return proposals.masked_fill(~goes_on, batch.rules.pad)


def _best(log_probs: Tensor, eos: int) -> tuple[Tensor, Tensor]:
    """The best tokens, and their scores: ``-inf`` for EOS, which nothing follows."""
    scores, tokens = log_probs.max(dim=-1)
    return scores.masked_fill(tokens.eq(eos), -math.inf), tokens
