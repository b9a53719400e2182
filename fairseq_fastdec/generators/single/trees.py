"""Proposals that continue each other in several ways, of which p_1 accepts the longest path.

This goes beyond the paper, which looks at each head's best token only, and is lossless. Where the
best token is wrong the second often is right, and to verify some more tokens takes little time. The
trees are those of the most probable paths, as in Medusa (Cai et al., 2024) and SpecInfer (Miao et
al., 2024).
"""

import heapq
import math
from typing import List, NamedTuple, Sequence


class Tree(NamedTuple):
    """The tokens of a tree, the root first and each behind the one that it follows.

    Attributes:
        parents: the indices of the tokens that they follow; -1 for the root's.
        depths: how many tokens come before each.
        path_scores: the log-probability of the path to each; nothing reads them of other trees
            than those of heads.
    """

    tokens: List[int]
    parents: List[int]
    depths: List[int]
    path_scores: List[float]

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
        more = ([pad] * n_more, [0] * n_more, [1] * n_more, [-math.inf] * n_more)
        return Tree(*(own + of_padding for own, of_padding in zip(self, more)))


def padded(trees: Sequence[Tree], pad: int) -> List[Tree]:
    """Trees as long as the longest of them; see :meth:`Tree.padded`."""
    longest = max(len(tree.tokens) for tree in trees)
    return [tree.padded(longest, pad) for tree in trees]


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
    tree = Tree([root], [-1], [0], [0.0])
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
        tree.path_scores.append(-cost)
        if rank + 1 < len(scores[head]):
            wait(cost + scores[head][rank] - scores[head][rank + 1], parent, head, rank + 1)
        if head + 1 < len(scores) and token != eos:
            wait(cost - scores[head + 1][0], index, head + 1, 0)
    return tree
