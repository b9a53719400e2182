"""The best one-token extensions of many beams at once, whatever their widths."""

import math
from typing import NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

# A scan for column maxima reads the vocabulary at memory speed; torch's top-k does not. But what
# follows the scan is many small calls, and more work the more rows there are.
SMALLEST_SCAN = 512
FEW_SCORES = 40_000
FEW_CANDIDATES = 256  # to be sorted after the rows' own top-k
SMALLEST_SCAN_OF_LONE_ROWS = 10_000
FEW_SCORES_OF_LONE_ROWS = 100_000


class Candidates(NamedTuple):
    """Candidates of S sentences, best first, ``[S, C]``; a score of ``-inf`` means none."""

    scores: Tensor  # float32, cumulative
    tokens: Tensor  # int64, the last one
    lengths: Tensor  # int64, the length of the entry that is extended
    columns: Tensor  # int64, its column
    rows: Tensor  # int64, its row among those in focus; of those that waited, anything

    def best(self, n: int) -> "Candidates":
        """The n best, best first; among equals those that stand first."""
        order = self.scores.sort(dim=1, descending=True, stable=True).indices[:, :n]
        return Candidates(*(field.gather(1, order) for field in self))


class Rows(NamedTuple):
    """The rows of S beams: row r is the entry ``column[r]`` of beam ``beam[r]``, int64 ``[R]``."""

    beam: Tensor
    column: Tensor
    n_beams: int
    width: int

    def grid(self, values: Tensor, missing: float) -> Tensor:
        """``[R, ...]`` laid out as ``[S, width, ...]``; what no row has is ``missing``."""
        out = values.new_full((self.n_beams, self.width, *values.shape[1:]), missing)
        out[self.beam, self.column] = values
        return out

    def indices(self) -> Tensor:
        """int64 ``[S, width]``: the row of each entry; 0 where there is none."""
        return self.grid(torch.arange(self.beam.numel(), device=self.beam.device), 0)

    def widths(self) -> Tensor:
        """int64 ``[S]``: how many rows each beam has."""
        return self.beam.bincount(minlength=self.n_beams)


class FullRows(NamedTuple):
    """The same of S beams of one width whose rows lie in order: their grid is a view."""

    n_beams: int
    width: int
    device: torch.device

    def grid(self, values: Tensor, missing: float) -> Tensor:
        """``[S * width, ...]`` as ``[S, width, ...]``; nothing is missing."""
        return values.unflatten(0, (self.n_beams, self.width))

    def indices(self) -> Tensor:
        """int64 ``[S, width]``: the row of each entry."""
        rows = torch.arange(self.n_beams * self.width, device=self.device)
        return rows.view(self.n_beams, self.width)

    def widths(self) -> Tensor:
        """int64 ``[S]``: how many rows each beam has."""
        return torch.full((self.n_beams,), self.width, device=self.device)


AnyRows = Union[Rows, FullRows]


class Extensions(NamedTuple):
    """The best extensions of S beams, best first, ``[S, C]``.

    Where a beam has fewer than C, ``scores`` is ``-inf`` and the rest means nothing.
    """

    scores: Tensor  # float32, cumulative
    rows: Tensor  # int64, the row that is extended
    tokens: Tensor  # int64


def best_extensions(
    log_probs: Tensor, totals: Tensor, rows: AnyRows, n: int, per_row: Optional[int] = None
) -> Extensions:
    """The n best extensions of each beam by cumulative score.

    Args:
        log_probs: float32 ``[R, V]`` of each row's next token.
        totals: float32 ``[R]``, each row's score so far.
        n: how many for each beam, at most; fewer where there are fewer.
        per_row: no more than so many from one row: "max candidates", M, of Yang et al. 2020,
            section 4. ``None``: any number.
    """
    if per_row is not None and per_row < n:
        return _best_of_few(log_probs, totals, rows, n, per_row)
    if rows.width == 1:
        return _best_of_lone_rows(log_probs, totals, rows, n)
    block = _block_length(log_probs, rows.width, n)
    if block == 1:
        return _best_of_few(log_probs, totals, rows, n, n)
    return _best_of_columns(log_probs, totals, rows, n, block)


def best_of_each(log_probs: Tensor, n: int) -> Tuple[Tensor, Tensor]:
    """The n best tokens of each row by itself, or all if there are fewer; best first.

    Args:
        log_probs: float32 ``[R, V]``.

    Returns:
        scores float32 and tokens int64, ``[R, min(n, V)]``
    """
    n = min(n, log_probs.size(1))
    block = 1 if _plain_top_k(log_probs) else _block_length(log_probs, 1, n)
    if block == 1:
        return log_probs.topk(n, dim=1)
    alone = FullRows(log_probs.size(0), 1, log_probs.device)
    best = _best_of_columns(log_probs, torch.zeros_like(log_probs[:, 0]), alone, n, block)
    return best.scores, best.tokens


def _best_of_lone_rows(log_probs: Tensor, totals: Tensor, rows: AnyRows, n: int) -> Extensions:
    """Every beam has one row."""
    scores, tokens = best_of_each(log_probs, n)
    row = rows.indices()
    order = row.squeeze(1)
    scores = scores + totals[:, None]
    return Extensions(scores[order], row.expand_as(scores), tokens[order])


def _best_of_few(
    log_probs: Tensor, totals: Tensor, rows: AnyRows, n: int, per_row: int
) -> Extensions:
    """The rows' own best first, and then the best of those."""
    scores, tokens = log_probs.topk(min(per_row, log_probs.size(1)), dim=1)
    scores = scores + totals[:, None]
    # Stable, so that ties do not depend on how wide other beams are.
    by_score, order = (
        rows.grid(scores, -math.inf).flatten(1).sort(dim=1, descending=True, stable=True)
    )
    order = order[:, :n]
    column, choice = order // scores.size(1), order % scores.size(1)
    chosen = rows.indices().gather(1, column)
    return Extensions(by_score[:, :n], chosen, tokens[chosen, choice])


def _best_of_columns(
    log_probs: Tensor, totals: Tensor, rows: AnyRows, n: int, block: int
) -> Extensions:
    """Exact top-n without sorting the vocabulary.

    Tokens are dealt to columns of about ``block`` tokens. The n best tokens lie in the n columns
    with the best maxima, so only these columns need to be searched.
    """
    vocabulary = log_probs.size(1)
    n_columns = vocabulary // block
    n_dealt = block * n_columns
    maxima = log_probs[:, :n_dealt].unflatten(1, (block, n_columns)).amax(dim=1)
    left_over = log_probs[:, n_dealt:]
    first = maxima[:, : vocabulary - n_dealt]
    torch.maximum(first, left_over, out=first)

    maxima += totals[:, None]
    best = rows.grid(maxima, -math.inf).flatten(1).topk(n, dim=1).indices  # [S, n]
    chosen = rows.indices().gather(1, best // n_columns)
    tokens = (best % n_columns)[:, :, None] + n_columns * torch.arange(
        block + 1, device=best.device
    )
    missing = tokens >= vocabulary
    tokens = tokens.masked_fill_(missing, 0)
    # A fifth of the time of indexing by rows and tokens.
    flat = (chosen[:, :, None] * vocabulary + tokens).flatten()
    scores = log_probs.flatten().index_select(0, flat).view(tokens.shape)
    scores += totals[chosen][:, :, None]
    # Beams with fewer than n columns filled up their choice with columns of no row.
    missing |= (best // n_columns >= rows.widths()[:, None])[:, :, None]
    scores = scores.masked_fill_(missing, -math.inf).flatten(1)
    scores, order = scores.topk(n, dim=1)
    return Extensions(
        scores, chosen.gather(1, order // (block + 1)), tokens.flatten(1).gather(1, order)
    )


def _block_length(log_probs: Tensor, width: int, n: int) -> int:
    """How many tokens to a column: the least work, or 1 where a plain top-k is best."""
    vocabulary = log_probs.size(1)
    if log_probs.is_cuda or vocabulary < SMALLEST_SCAN:
        return 1
    if log_probs.numel() <= FEW_SCORES and log_probs.size(0) * n <= FEW_CANDIDATES:
        return 1
    block = int(math.sqrt(width * vocabulary / n))
    block = min(block, 64, int(math.sqrt(vocabulary)), vocabulary // n)
    return max(block, 1)


def _plain_top_k(log_probs: Tensor) -> bool:
    """Whether torch's top-k is as fast as a scan for rows that have their beam to themselves."""
    few = log_probs.numel() <= FEW_SCORES_OF_LONE_ROWS
    return few or log_probs.size(1) < SMALLEST_SCAN_OF_LONE_ROWS
