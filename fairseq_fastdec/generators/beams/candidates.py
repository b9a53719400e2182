"""The best one-token extensions of many beams at once, whatever their widths."""

import math
from typing import NamedTuple, Optional

import numpy as np
from torch import Tensor

from ..constraints import TokenConstraints
from ..top_tokens import Beams, Choices, Chooser

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


class BeamRows(NamedTuple):
    """The rows of S beams: row r is the entry ``column[r]`` of beam ``beam[r]``, int64 ``[R]``."""

    beam: np.ndarray
    column: np.ndarray
    n_beams: int
    width: int

    def grid(self, values: np.ndarray, missing: float) -> np.ndarray:
        """``[R, ...]`` laid out as ``[S, width, ...]``; what no row has is ``missing``."""
        shape = (self.n_beams, self.width, *values.shape[1:])
        out = np.full(shape, missing, dtype=values.dtype)
        out[self.beam, self.column] = values
        return out

    def competing(self, totals: np.ndarray) -> Beams:
        """The rows of each beam by their columns, with their scores so far, float32 ``[R]``."""
        starts = np.zeros(self.n_beams + 1, dtype=np.int64)
        np.bincount(self.beam, minlength=self.n_beams).cumsum(out=starts[1:])
        return Beams(np.lexsort((self.column, self.beam)), starts, totals)


class Extensions(NamedTuple):
    """The best extensions of S beams, best first, ``[S, C]``.

    Where a beam has fewer than C, ``scores`` is ``-inf`` and the rest means nothing.
    """

    scores: np.ndarray  # float32, cumulative
    rows: np.ndarray  # int64, the row that is extended
    tokens: np.ndarray  # int64


class Wanted(NamedTuple):
    """The numbers of extensions that a search wants."""

    n: int  # of each beam
    per_row: Optional[int]  # of each row, or any number


def best_extensions(
    chooser: Chooser,
    scores: Tensor,
    totals: np.ndarray,
    rows: BeamRows,
    wanted: Wanted,
    constraints: Optional[TokenConstraints],
    normalize: bool,
) -> Extensions:
    """The best extensions of each beam by cumulative score; fewer where there are fewer.

    Args:
        scores, constraints, normalize: see :meth:`Chooser.choose_by_row`.
        totals: float32 ``[R]``, each row's score so far.
    """
    n = min(wanted.n, rows.width * scores.size(1))
    if wanted.per_row is None or wanted.per_row >= n:
        # The best of each row need not be known; their number would grow with the beam's square.
        found = chooser.choose_by_beam(scores, n, constraints, normalize, rows.competing(totals))
        if found is not None:
            return Extensions(*found)
    own = chooser.choose_by_row(scores, min(n, wanted.per_row or n), constraints, normalize)
    return extensions_of_choices(own, totals, rows, n)


def extensions_of_choices(own: Choices, totals: np.ndarray, rows: BeamRows, n: int) -> Extensions:
    """The n best extensions of each beam by cumulative score; fewer where there are fewer.

    Args:
        own: the best tokens of each row by itself; no others are looked at.
        totals: float32 ``[R]``, each row's score so far.
    """
    n_own = own.scores.shape[1]
    scores = rows.grid(own.scores + totals[:, None], -math.inf).reshape(rows.n_beams, -1)
    order = best_first(scores, n)
    number = rows.grid(np.arange(totals.size), 0)
    (chosen,) = taken(order // n_own, number)
    (best,) = taken(order, scores)
    return Extensions(best, chosen, own.tokens[chosen, order % n_own])


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
