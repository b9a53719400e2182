"""Trees of proposals: the heads' most probable paths. p_1 accepts the longest one it agrees with.

This is lossless, and extends Stern et al. (2018), whose heads propose one token per position. The
trees are those of Medusa (Cai et al. 2024) and SpecInfer (Miao et al. 2024).
"""

import heapq
import math
from typing import NamedTuple

import torch
from torch import Tensor

from .outputs import OutputBatch
from .proposals import Proposed

# The number of paths that sequential heads extend in each level of a row's tree.
MOST_PROLONGED = 4


def tree_of(
    batch: OutputBatch, features: Tensor, next_tokens: Tensor, n_heads: int, n: int, least: float
) -> Proposed:
    """The n most probable paths after each row's next token, as a tree of at most n tokens.

    Args:
        features: ``[R, C]``, at the last position of each row.
        next_tokens: int64 ``[R]``, p_1's prediction there.
        n_heads: k.
        least: only paths of at least this probability are extended; 0 for no limit.
    """
    roots = next_tokens.tolist()
    if n_heads == 1:
        trees = [PathTree(root) for root in roots]
    elif batch.network.has_sequential_heads:
        trees = _level_by_level(batch, features, next_tokens, n_heads, n, least)
    else:
        log_probs = batch.network.head_log_probs(features, n_heads)
        log_probs = batch.limited(log_probs, range(1, n_heads))
        best = log_probs.topk(min(n, log_probs.size(-1)))
        rows = zip(roots, best.values.tolist(), best.indices.tolist())
        trees = [_best_first(*row, n, batch.rules.eos, least) for row in rows]
    longest = max(len(tree.tokens) for tree in trees)
    # p_1 never predicts padding, so the padding of smaller trees is never accepted.
    columns = [tree.padded(longest, batch.rules.pad) for tree in trees]
    return Proposed(*next_tokens.new_tensor(columns).unbind(1))


class PathTree:
    """A tree of tokens; each token comes after its parent."""

    def __init__(self, root: int) -> None:
        self.tokens, self.parents, self.depths = [root], [-1], [0]

    def add(self, token: int, parent: int) -> int:
        """Add a token after the token at index ``parent``, and return its index."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        return len(self.tokens) - 1

    def padded(self, n: int, pad: int) -> list[list[int]]:
        """Tokens, parents and depths, padded to n tokens with children of the root."""
        n_more = n - len(self.tokens)
        return [
            self.tokens + n_more * [pad], self.parents + n_more * [0], self.depths + n_more * [1],
        ]  # fmt: skip


def _best_first(
    root: int, log_probs: list[list[float]], tokens: list[list[int]], n: int, eos: int, least: float
) -> PathTree:
    """The n most probable paths by parallel heads, by the product of their tokens' probabilities.

    Args:
        log_probs, tokens: each head's best tokens, best first.
    """
    tree, waiting = PathTree(root), [(-log_probs[0][0], 0, 0, 0)]
    while waiting and len(tree.tokens) <= n:
        # The best path that is not in the tree yet: the rank-th token of a head, after its parent.
        cost, parent, head, rank = heapq.heappop(waiting)
        if cost == math.inf:
            break
        token, own = tokens[head][rank], log_probs[head]
        index = tree.add(token, parent)
        if rank + 1 < len(own):
            heapq.heappush(waiting, (cost + own[rank] - own[rank + 1], parent, head, rank + 1))
        if head + 1 < len(log_probs) and token != eos and math.exp(-cost) >= least:
            heapq.heappush(waiting, (cost - log_probs[head + 1][0], index, head + 1, 0))
    return tree


class PathsOfRows(NamedTuple):
    """Paths of R rows below their roots; a score of ``-inf`` means that there is no path.

    Attributes:
        tokens: int64 ``[R, N]``, the last token of each.
        parents: int64 ``[R, N]``, the index of the path that it extends among all found; -1 for the
            root.
        scores: float32 ``[R, N]``, the sum of the log-probabilities of its tokens.
    """

    tokens: Tensor
    parents: Tensor
    scores: Tensor

    def with_others(self, others: "PathsOfRows") -> "PathsOfRows":
        """These paths, followed by others."""
        return PathsOfRows(*(torch.cat(pair, dim=1) for pair in zip(self, others)))

    def worst_of_best(self, n: int) -> Tensor:
        """The score of each row's n-th best path, ``[R, 1]``; ``-inf`` with fewer than n."""
        if self.scores.size(1) <= n:
            return self.scores.new_full((self.scores.size(0), 1), -math.inf)
        return _best(self.scores, n)[0][:, -1:]


def _level_by_level(
    batch: OutputBatch, features: Tensor, next_tokens: Tensor, n_heads: int, n: int, least: float
) -> list[PathTree]:
    """The n most probable paths by sequential heads, which extend the best paths of each level."""
    network, row = batch.network, torch.arange(batch.n_rows, device=features.device)[:, None]
    states, tokens = network.begin_drafts(features), next_tokens[:, None]
    level = PathsOfRows(tokens, torch.full_like(tokens, -1), torch.zeros_like(tokens).float())
    numbers, found = level.parents, PathsOfRows(*(part[:, :0] for part in level))
    for depth in range(1, n_heads):
        # The heads read the last token of each path of the level, and predict the next one.
        states = network.extend_drafts(states, level.tokens)
        log_probs = batch.limited(network.draft_log_probs(states)[:, None], [depth])[:, 0]
        best = log_probs.topk(min(n, log_probs.size(-1)))
        # The n best children of the level. --unkpen can make a score positive.
        totals = level.scores[..., None] + best.values.clamp(max=0)
        scores, place = _best(totals.flatten(1), n)
        slot = place // best.values.size(-1)
        children = PathsOfRows(
            best.indices.flatten(1).gather(1, place), numbers.gather(1, slot), scores
        )
        n_before, found = found.scores.size(1), found.with_others(children)
        # Extend only paths that can have a child among the n best; a child is no more probable.
        can_grow = children.tokens.ne(batch.rules.eos) & (scores > found.worst_of_best(n))
        if least:
            can_grow &= scores >= math.log(least)
        scores, place = _best(scores.masked_fill(~can_grow, -math.inf), MOST_PROLONGED)
        if not scores.gt(-math.inf).any():
            break
        states = states[row, slot.gather(1, place)]
        level, numbers = PathsOfRows(*(part[row, place] for part in children)), n_before + place
        level = level._replace(scores=scores)
    rows = zip(next_tokens.tolist(), *(part.tolist() for part in found))
    return [_tree_of_best(n, *of_row) for of_row in rows]


def _best(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n best of each row ``[R, N]``, best first, and their indices; ties keep their order."""
    best, place = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :n], place[:, :n]


def _tree_of_best(
    n: int, root: int, tokens: list[int], parents: list[int], scores: list[float]
) -> PathTree:
    """The tree of the n best paths. A path comes after the one that it extends."""
    tree, index = PathTree(root), {-1: 0}
    by_score = sorted(range(len(scores)), key=lambda path: -scores[path])
    for path in by_score[:n]:
        if scores[path] > -math.inf:
            index[path] = tree.add(tokens[path], index[parents[path]])
    return tree
