"""The best one-token extensions of many beams at once, whatever their widths."""

import math
from typing import NamedTuple, Optional

import numpy as np

from ...engine import Scores
from ..constraints import TokenConstraints
from ..top_tokens import Beams, Best, Choices, Chooser

FEW_SCORES = 2000  # to be sorted as they are


class Candidates(NamedTuple):
    """Candidates of S sentences, best first, ``[S, C]``; a score of ``-inf`` means none."""

    scores: np.ndarray  # float32, cumulative
    tokens: np.ndarray  # int64, the last one
    lengths: np.ndarray  # int64, the length of the entry that is extended
    columns: np.ndarray  # int64, its column
    rows: np.ndarray  # int64, its row among those in focus; of those that waited, anything

    def best(self, n: int) -> "Candidates":
        """The n best, best first; among equals those that stand first."""
        return Candidates(*taken(best_first(self.scores, n), *self))


class Wanted(NamedTuple):
    """The numbers of extensions that a search wants."""

    n: int  # of each beam
    per_row: Optional[int]  # of each row, or any number


def best_extensions(
    chooser: Chooser,
    scores: Scores,
    beams: Beams,
    wanted: Wanted,
    constraints: Optional[TokenConstraints],
) -> Best:
    """The best extensions of each beam by cumulative score; fewer where there are fewer.

    Args:
        scores: of the rows, ``[R, V]``.
        constraints: see :meth:`Chooser.choose_by_row`.
    """
    n, n_types = wanted.n, scores.n_types
    if n > n_types:
        n = min(n, widest(beams) * n_types)
    members, normalized = scores
    found = chooser.choose_by_beam(
        members, n, wanted.per_row, constraints, normalize=not normalized, beams=beams
    )
    if found is not None:
        return found
    alone, normalized = scores.averaged()
    n_own = min(n, wanted.per_row or n)
    own = chooser.choose_by_row(alone, n_own, constraints, normalize=not normalized)
    return extensions_of_choices(own, beams, n)


def extensions_of_choices(own: Choices, beams: Beams, n: int) -> Best:
    """The n best extensions of each beam by cumulative score; fewer where there are fewer.

    Args:
        own: the best tokens of each row by itself; no others are looked at.
    """
    n_own, width = own.scores.shape[1], widest(beams)
    n_beams, rows = beams.n_beams, beams.rows[: beams.n_rows]
    starts = beams.starts[:n_beams]
    beam = np.arange(n_beams).repeat(np.diff(beams.starts[: n_beams + 1]))
    place = np.arange(rows.size) - starts[beam]
    scores = np.full((n_beams, width, n_own), -math.inf, dtype=np.float32)
    totals = beams.totals[: beams.n_rows, None]
    scores[beam, place] = (own.scores + totals)[rows]
    number = np.zeros((n_beams, width), dtype=np.int64)
    number[beam, place] = rows
    order = best_first(scores.reshape(n_beams, -1), n)
    (chosen,) = taken(order // n_own, number)
    (best,) = taken(order, scores.reshape(n_beams, -1))
    return Best(best, chosen, own.tokens[chosen, order % n_own])


def widest(beams: Beams) -> int:
    """The number of rows of the beam that has most."""
    return int(np.diff(beams.starts[: beams.n_beams + 1]).max())


def best_first(scores: np.ndarray, n: int) -> np.ndarray:
    """The places of the n best of each row ``[..., N]``, best first: int64 ``[..., n]``.

    Among equals those that stand first, so that nothing depends on how wide other beams are.
    """
    cost = -scores
    if scores.size > FEW_SCORES and n < scores.shape[-1]:
        # All that are surely not among them are made equal, and sorting equals takes no time.
        bound = np.partition(cost, n - 1, axis=-1)[..., n - 1, None]
        cost[cost > bound] = math.inf
    return cost.argsort(axis=-1, kind="stable")[..., :n]


def taken(order: np.ndarray, *fields: np.ndarray) -> tuple:
    """The values of each field ``[S, N, ...]`` at the places ``[S, n]`` of each row."""
    row = np.arange(order.shape[0])[:, None]
    return tuple(field[row, order] for field in fields)
