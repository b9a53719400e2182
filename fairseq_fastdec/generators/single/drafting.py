"""Proposals of heads that see the tokens before theirs: chains, and trees level by level.

Each step of these heads is cheap, and p_1 verifies all that they say in one invocation.
"""

import math
from typing import List, NamedTuple, Tuple

import numpy as np
import torch
from torch import Tensor

from ...engine import Features
from .batch import Batch
from .trees import Tree

# So many paths of a row go on from one level of a tree to the next.
MOST_EXPANDED = 4


def draft_chain(
    batch: Batch,
    features: Features,
    next_tokens: Tensor,
    n: int,
    confidence: float = 0.0,
) -> Tensor:
    """The best token of each of up to n heads, which see the tokens of the heads before them.

    Args:
        features: ``[R, C]``, of each row's last position.
        next_tokens: int64 ``[R]``, p_1's tokens there.
        confidence: as for :meth:`Blocks.propose_chain`.

    Returns:
        int64 ``[R, N]``
    """
    session = batch.session
    states, tokens, chain = session.begin_drafts(features, rough=True), next_tokens[:, None], []
    path_scores = torch.zeros_like(tokens, dtype=torch.float32)
    for depth in range(1, n + 1):
        states = session.extend_drafts(states, tokens, rough=True)
        scores = session.draft_scores(states, rough=True)
        best, tokens = batch.best_drafts(scores.log_softmax(-1) if confidence else scores, depth)
        chain.append(tokens)
        if confidence and depth < n:
            path_scores = (path_scores + best).masked_fill(tokens.eq(batch.rules.eos), -math.inf)
            if not float(path_scores.exp().mean()) >= confidence:
                break
    return torch.cat(chain, dim=1) if chain else next_tokens.new_empty(len(next_tokens), 0)


class Paths(NamedTuple):
    """Paths of trees of R rows: each is a token behind a path that was found before, or the root.

    Attributes:
        tokens: int64 ``[R, N]``.
        parents: int64 ``[R, N]``, the paths that they prolong; -1 for the root's.
        depths: int64 ``[R, N]``, how many tokens they have behind the root.
        scores: float32 ``[R, N]``, their log-probabilities; ``-inf`` where there is no path.
        slots: int64 ``[R, N]``, at which of their row's states they were found.
    """

    tokens: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    scores: np.ndarray
    slots: np.ndarray

    def at(self, places: np.ndarray) -> "Paths":
        """Those at places int64 ``[R, K]``."""
        return Paths(*(np.take_along_axis(part, places, axis=1) for part in self))

    def without_end(self, eos: int) -> "Paths":
        """With no path where one ends in EOS, since nothing follows that."""
        return self._replace(scores=np.where(self.tokens == eos, -np.inf, self.scores))

    def above(self, least: float) -> "Paths":
        """With no path whose score is less."""
        return self._replace(scores=np.where(self.scores >= least, self.scores, -np.inf))

    def best(self, n: int) -> "Paths":
        """The n most probable ones of each row, or all if there are fewer, best first."""
        return self.at(np.argsort(-self.scores, axis=1, kind="stable")[:, :n])


def draft_trees(
    batch: Batch,
    features: Features,
    next_tokens: Tensor,
    n_levels: int,
    n: int,
    confidence: float = 0.0,
) -> List[Tree]:
    """Trees of the most probable paths, of which the best ones of each level go on to the next.

    Args:
        features, next_tokens: as for :func:`draft_chain`.
        n_levels: the most tokens of a path behind the root.
        n: how many tokens there are to be besides the root, if there are so many.
        confidence: only paths that are so probable go on.

    Returns:
        a tree for each row, with its next token as the root
    """
    session, roots, eos = batch.session, next_tokens[:, None], batch.rules.eos
    states, tokens = session.begin_drafts(features, rough=True), roots
    level = _roots(roots.cpu().numpy())
    least = math.log(confidence) if confidence else -math.inf
    places = level.parents
    found = level.at(places[:, :0])
    for depth in range(1, n_levels + 1):
        states = session.extend_drafts(states, tokens, rough=True)
        scores = session.draft_scores(states, rough=True).flatten(0, 1)
        ranked = batch.ranked_drafts(scores, depth, n)
        children = _children(level, places, ranked, depth).best(n)
        n_before = found.tokens.shape[1]
        found = Paths(*(np.concatenate(parts, axis=1) for parts in zip(found, children)))
        children = children.without_end(eos).above(least)
        best = _worth_expanding(found, children, n)
        if depth == n_levels or not best.size:
            break
        places = n_before + best
        level = children.at(best)
        tokens = torch.from_numpy(level.tokens).to(next_tokens.device)
        states = states.of_slots(torch.from_numpy(level.slots).to(next_tokens.device))
    return [_tree(*row, n) for row in zip(next_tokens.tolist(), *found)]


def _roots(tokens: np.ndarray) -> Paths:
    """The paths that are only roots, int64 ``[R, 1]``."""
    none = np.zeros_like(tokens)
    return Paths(tokens, none - 1, none, none.astype(np.float32), none)


def _children(
    level: Paths, places: np.ndarray, ranked: Tuple[np.ndarray, np.ndarray], depth: int
) -> Paths:
    """All paths that prolong a level's ``[R, W]`` by one of the best tokens behind each.

    Args:
        places: int64 ``[R, W]``, the numbers of the level's paths among all that were found.
        ranked: log-probabilities and tokens ``[R * W, K]``.
    """
    n_rows, width = places.shape
    scores, tokens = (part.reshape(n_rows, width, -1) for part in ranked)
    # An unknown word that options make likelier is no more probable than what it follows.
    totals = (level.scores[:, :, None] + np.minimum(scores, 0)).astype(np.float32)
    slots = np.arange(width)[None, :, None]
    parts = (tokens, places[:, :, None], np.array([[[depth]]]), totals, slots)
    return Paths(*(np.broadcast_to(part, totals.shape).reshape(n_rows, -1) for part in parts))


def _worth_expanding(found: Paths, children: Paths, n: int) -> np.ndarray:
    """Those children of whose own children some could be among the n best paths: int64 ``[R, W]``.

    Where a row has fewer of them than others, it has other children, too.
    """
    open_scores = children.scores
    if found.scores.shape[1] > n:
        # What follows a path is no more probable than the path.
        least = np.partition(found.scores, -n, axis=1)[:, -n, None]
        open_scores = np.where(open_scores > least, open_scores, -np.inf)
    is_open = open_scores > -np.inf
    width = min(MOST_EXPANDED, int(is_open.sum(axis=1).max()))
    return np.argsort(-open_scores, axis=1, kind="stable")[:, :width]


def _tree(
    root: int,
    tokens: np.ndarray,
    parents: np.ndarray,
    depths: np.ndarray,
    scores: np.ndarray,
    slots: np.ndarray,
    n: int,
) -> Tree:
    """The tree of the n best of a row's paths ``[N]``."""
    # A path comes behind the one that it prolongs, which is at least as probable.
    best = [i for i in np.argsort(-scores, kind="stable")[:n].tolist() if scores[i] > -np.inf]
    places = {-1: 0, **{path: place for place, path in enumerate(best, start=1)}}
    return Tree(
        [root, *tokens[best].tolist()],
        [-1, *(places[parents[path]] for path in best)],
        [0, *depths[best].tolist()],
        [0.0, *scores[best].tolist()],
    )
