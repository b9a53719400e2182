"""The proposals of the heads p_2 ... p_k, the block that p_1 verifies.

The heads of Stern et al. (2018) are parallel: each predicts its token without knowing the others.
Sequential heads read the tokens before their own, as in Hydra (Ankner et al. 2024).
"""

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from .outputs import OutputBatch


class Proposed(NamedTuple):
    """Blocks of tokens, each row's certain next token first.

    Attributes:
        tokens: int64 ``[R, T]``.
        parents: for trees, int64 ``[R, T]``, which token each follows; -1 for the first.
        depths: for trees, int64 ``[R, T]``, how many tokens of the tree come before each.
    """

    tokens: Tensor
    parents: Optional[Tensor] = None
    depths: Optional[Tensor] = None


def chain_of(
    batch: OutputBatch, features: Tensor, next_tokens: Tensor, n_heads: int, confidence: float
) -> Proposed:
    """The most probable token of each head, one after the other (section 3, predict).

    Args:
        features: ``[R, C]``, at the last position of each row.
        next_tokens: int64 ``[R]``, p_1's prediction there.
        n_heads: k.
        confidence: sequential heads stop if the mean probability of the rows' chains, as the heads
            see it, falls below this. 0 for chains of k tokens.
    """
    network, chain = batch.network, [next_tokens[:, None]]
    if n_heads == 1:
        return Proposed(chain[0])
    if not network.has_sequential_heads:
        log_probs = network.head_log_probs(features, n_heads)
        proposals = batch.limited(log_probs, range(1, n_heads)).argmax(dim=-1)
        return Proposed(torch.cat([*chain, proposals], dim=1))
    states = network.begin_drafts(features)
    of_chain = torch.zeros_like(chain[0], dtype=torch.float32)
    for depth in range(1, n_heads):
        states = network.extend_drafts(states, chain[-1])
        log_probs, tokens = batch.limited(network.draft_log_probs(states), [depth]).max(dim=-1)
        chain.append(tokens)
        # Nothing follows EOS.
        of_chain = (of_chain + log_probs).masked_fill(tokens.eq(batch.rules.eos), -math.inf)
        if confidence and not of_chain.exp().mean() >= confidence:
            break
    return Proposed(torch.cat(chain, dim=1))
