"""What the prediction heads p_2 ... p_k propose: a chain of tokens, or a tree of the best chains.

The heads of Stern et al. (2018) are parallel: each predicts its token without knowing the others.
Sequential heads read the tokens that come before their own, as in Hydra (Ankner et al. 2024).
Trees are those of the most probable paths, as in Medusa (Cai et al. 2024).
"""

import heapq
import math
from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .outputs import OutputBatch

# Sequential heads prolong this many paths of a row in each level of a tree.
MOST_PROLONGED = 4


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


def tree_of(
    batch: OutputBatch, features: Tensor, next_tokens: Tensor, n_heads: int, n: int, least: float
) -> Proposed:
    """The n most probable paths behind each row's next token, as a tree of n tokens or fewer.

    Args:
        features, next_tokens, n_heads: as for :func:`chain_of`.
        least: sequential heads prolong paths of at least this probability; 0 for any.
    """
    roots = next_tokens.tolist()
    if n_heads == 1:
        trees = [PathTree(root) for root in roots]
    elif batch.network.has_sequential_heads:
        trees = _grown_by_level(batch, features, next_tokens, n_heads, n, least)
    else:
        log_probs = batch.network.head_log_probs(features, n_heads)
        log_probs = batch.limited(log_probs, range(1, n_heads))
        best = log_probs.topk(min(n, log_probs.size(-1)))
        rows = zip(roots, best.values.tolist(), best.indices.tolist())
        trees = [_best_first(*row, n, batch.rules.eos) for row in rows]
    longest = max(len(tree.tokens) for tree in trees)
    # p_1 never predicts padding, so that nothing accepts the padding of smaller trees.
    columns = [tree.padded(longest, batch.rules.pad) for tree in trees]
    return Proposed(*next_tokens.new_tensor(columns).unbind(1))


class PathTree:
    """A tree of tokens; each token stands behind the one that it follows."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parents, self.depths = [root], [-1], [0]

    def add(self, token: int, parent: int) -> int:
        """Add a token behind the token at index ``parent``; returns its own index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        return len(self.tokens) - 1

    def padded(self, n: int, pad: int) -> List[List[int]]:
        """Tokens, parents and depths of n tokens, the last ones padding behind the root."""
        n_more = n - len(self.tokens)
        return [
            self.tokens + n_more * [pad], self.parents + n_more * [0], self.depths + n_more * [1],
        ]  # fmt: skip


def _best_first(
    root: int, log_probs: List[List[float]], tokens: List[List[int]], n: int, eos: int
) -> PathTree:
    """The n most probable paths by parallel heads; a path's probability is its tokens' product.

    Args:
        log_probs, tokens: each head's best tokens, best first.
    """
    tree, waiting = PathTree(root), [(-log_probs[0][0], 0, 0, 0)]
    while waiting and len(tree.tokens) <= n:
        # The best path that is not in the tree: the rank-th token of a head, behind its parent.
        cost, parent, head, rank = heapq.heappop(waiting)
        if cost == math.inf:
            break
        token, own = tokens[head][rank], log_probs[head]
        index = tree.add(token, parent)
        if rank + 1 < len(own):
            heapq.heappush(waiting, (cost + own[rank] - own[rank + 1], parent, head, rank + 1))
        if head + 1 < len(log_probs) and token != eos:
            heapq.heappush(waiting, (cost - log_probs[head + 1][0], index, head + 1, 0))
    return tree


def _grown_by_level(
    batch: OutputBatch, features: Tensor, next_tokens: Tensor, n_heads: int, n: int, least: float
) -> List[PathTree]:
    """The n most probable paths by sequential heads, which prolong the best of each level."""
    network, eos, row = batch.network, batch.rules.eos, torch.arange(batch.n_rows)[:, None]
    row = row.to(next_tokens.device)
    states, tokens = network.begin_drafts(features), next_tokens[:, None]
    scores, paths = torch.zeros_like(tokens, dtype=torch.float32), torch.full_like(tokens, -1)
    # All paths that were found, [R, N]: the last token, the path that it prolongs, log-probability.
    found = (tokens[:, :0], paths[:, :0], scores[:, :0])
    for depth in range(1, n_heads):
        states = network.extend_drafts(states, tokens)
        log_probs = batch.limited(network.draft_log_probs(states)[:, None], [depth])[:, 0]
        best = log_probs.topk(min(n, log_probs.size(-1)))
        # The n best children of the level: [R, W, K] to [R, n]. --unkpen can make a score positive.
        totals = (scores[..., None] + best.values.clamp(max=0)).flatten(1)
        totals, place = _best(totals, n)
        slot = place // best.values.size(-1)
        children = (best.indices.flatten(1).gather(1, place), paths.gather(1, slot), totals)
        n_before = found[0].size(1)
        found = tuple(torch.cat(pair, dim=1) for pair in zip(found, children))
        # Those that can have a child among the n best paths: it is no more probable than they are.
        can_grow = children[0].ne(eos) & (totals >= math.log(least) if least else True)
        if found[2].size(1) > n:
            can_grow &= totals > _best(found[2], n)[0][:, -1:]
        scores, place = _best(totals.masked_fill(~can_grow, -math.inf), MOST_PROLONGED)
        if not bool(scores.gt(-math.inf).any()):
            break
        tokens, paths, states = children[0][row, place], n_before + place, states[row, slot[row, place]]
    return [
        _tree_of_best(*parts, n)
        for parts in zip(next_tokens.tolist(), *(part.tolist() for part in found))
    ]


def _best(scores: Tensor, n: int) -> Tuple[Tensor, Tensor]:
    """The n best of each row ``[R, N]``, best first, and their places; among equals the first."""
    best, place = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :n], place[:, :n]


def _tree_of_best(
    root: int, tokens: List[int], parents: List[int], scores: List[float], n: int
) -> PathTree:
    """The tree of the n best paths. A path comes behind the one that it prolongs."""
    tree, index = PathTree(root), {-1: 0}
    by_score = sorted(range(len(scores)), key=lambda path: -scores[path])
    for path in by_score[:n]:
        if scores[path] > -math.inf:
            index[path] = tree.add(tokens[path], index[parents[path]])
    return tree
