"""Proposals that continue each other in several ways, of which p_1 accepts the longest path.

This goes beyond the paper, which looks at each head's best token only, and is lossless. Where the
best token is wrong the second often is right, and to verify some more tokens takes little time. The
trees are those of the most probable paths, as in Medusa (Cai et al., 2024) and SpecInfer (Miao et
al., 2024).
"""

import heapq
import math
from typing import List, NamedTuple, Tuple

from torch import Tensor

from ...engine import Features, TokenTree, at
from ..constraints import GenerationRules
from ..single.batch import Batch
from .chains import BlockVerifier, VerifiedBlock


class TreeVerifier(BlockVerifier):
    """Verifies the most probable continuations by the heads, which know nothing of each other."""

    def __init__(self, block_size: int, n_proposals: int, rules: GenerationRules) -> None:
        """
        Args:
            n_proposals: tokens to verify besides p_1's own, if there are so many.
        """
        self._block_size = block_size
        self._n_proposals = n_proposals
        self._eos = rules.eos
        self._pad = rules.pad

    def verify(self, batch: Batch, features: Features, certain: Tensor) -> VerifiedBlock:
        trees = self._trees(batch, features, certain)
        # tokens, parents and depths, in one transfer
        tokens, parents, depths = certain.new_tensor(trees).unbind(1)
        fed = batch.feed(tokens, TokenTree(parents))
        best_scores, best = batch.answers(fed, first_step=1, depths=depths)
        path, n_kept = _padded([tree.path(row) for tree, row in zip(trees, best.tolist())], certain)
        kept, answers, scores = (known.gather(1, path) for known in (tokens, best, best_scores))
        batch.observe(1, kept[:, 1:], answers, scores, n_kept, n_kept)
        last = at(path, n_kept - 1)
        here = (at(known, last) for known in (fed, best, best_scores))
        # Every accepted token is p_1's best one after the token before it.
        return VerifiedBlock(kept, scores[:, :-1], n_kept, path, *here)

    def _trees(self, batch: Batch, features: Features, certain: Tensor) -> List["Tree"]:
        n_heads = self._block_size - 1
        if n_heads == 0:
            return [Tree([token], [-1], [0]) for token in certain.tolist()]
        scores, tokens = batch.ranked_proposals(features, self._block_size, self._n_proposals)
        shape = (batch.n_rows, n_heads, -1)
        rows = zip(certain.tolist(), scores.reshape(shape).tolist(), tokens.reshape(shape).tolist())
        trees = [best_tree(*row, self._n_proposals, self._eos) for row in rows]
        longest = max(len(tree.tokens) for tree in trees)
        return [tree.padded(longest, self._pad) for tree in trees]


class Tree(NamedTuple):
    """The tokens of a tree, the root first and each behind the one that it follows.

    Attributes:
        parents: the indices of the tokens that they follow; -1 for the root's.
        depths: how many tokens come before each.
    """

    tokens: List[int]
    parents: List[int]
    depths: List[int]

    def path(self, best: List[int]) -> List[int]:
        """The longest path from the root on which each token is the best after the one before.

        Args:
            best: the best token after each of the tree's.
        """
        path = [0]
        for index in range(1, len(self.tokens)):
            last = path[-1]
            # Siblings differ, so there is one at most; and what follows it has a larger index.
            if self.parents[index] == last and self.tokens[index] == best[last]:
                path.append(index)
        return path

    def padded(self, n: int, pad: int) -> "Tree":
        """With padding, which nothing accepts, behind the root."""
        n_more = n - len(self.tokens)
        if n_more == 0:
            return self
        more = ([pad] * n_more, [0] * n_more, [1] * n_more)
        return Tree(*(own + of_padding for own, of_padding in zip(self, more)))


def best_tree(
    root: int, scores: List[List[float]], tokens: List[List[int]], n: int, eos: int
) -> Tree:
    """The n most probable paths from the root, whose tokens make a tree.

    Args:
        scores: log-probabilities of each head's best tokens, best first; a path's is their sum.
        tokens: those tokens.
        n: how many tokens there are to be besides the root, if there are so many.
        eos: nothing follows it.
    """
    tree = Tree([root], [-1], [0])
    waiting: List[tuple] = []

    def wait(cost: float, parent: int, head: int, rank: int) -> None:
        if cost < math.inf:
            heapq.heappush(waiting, (cost, parent, head, rank))

    wait(-scores[0][0], 0, 0, 0)
    while waiting and len(tree.tokens) <= n:
        cost, parent, head, rank = heapq.heappop(waiting)
        token, index = tokens[head][rank], len(tree.tokens)
        tree.tokens.append(token)
        tree.parents.append(parent)
        tree.depths.append(head + 1)
        if rank + 1 < len(scores[head]):
            wait(cost + scores[head][rank] - scores[head][rank + 1], parent, head, rank + 1)
        if head + 1 < len(scores) and token != eos:
            wait(cost - scores[head + 1][0], index, head + 1, 0)
    return tree


def _padded(paths: List[List[int]], like: Tensor) -> Tuple[Tensor, Tensor]:
    """Paths int64 ``[R, D]`` with 0 behind them, and how long they are, int64 ``[R]``."""
    longest = max(map(len, paths))
    rows = [path + [0] * (longest - len(path)) for path in paths]
    return like.new_tensor(rows), like.new_tensor([len(path) for path in paths])
