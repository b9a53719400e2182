"""The best next tokens of each row, as fairseq's options and a prefix have them."""

import math
from typing import NamedTuple, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..engine.kernels.top_k import Beams, TopK
from .constraints import Limits

# A scan for column maxima reads the vocabulary at memory speed; torch's top-k does not. But what
# follows the scan is many small calls.
SMALLEST_SCAN = 10_000
FEW_SCORES = 100_000
LARGEST_BLOCK = 64

ANY = -1

Numbers = Union[int, np.ndarray]


class Demands(NamedTuple):
    """What is asked of the next tokens of R rows."""

    only: np.ndarray  # int64 [R], the one token that is possible, or ANY
    no_end: np.ndarray  # bool [R], whether EOS is impossible
    # bool [R], whether EOS has to come: finite, even where the model gave NaN
    last: np.ndarray

    @classmethod
    def of(
        cls, limits: Limits, steps: np.ndarray, max_len: Numbers, n_waived: Numbers
    ) -> "Demands":
        """What :meth:`Limits.constrain` asks of steps ``[R]``; arguments as there."""
        no_end = (steps >= n_waived) & (steps < limits.min_len)
        return cls(np.full(steps.size, ANY), no_end, steps >= max_len)


class Choices(NamedTuple):
    """The best tokens of R rows, best first, ``[R, n]``; a score of ``-inf`` means none.

    They are on the host: what a search does with them is many small operations, which torch takes
    longer to begin than numpy to do, above all on a GPU.
    """

    scores: np.ndarray  # float32, log-probabilities
    tokens: np.ndarray  # int64


class Chooser:
    """Chooses the best next tokens of rows."""

    def __init__(self, limits: Limits, never: Tuple[int, ...] = ()) -> None:
        """
        Args:
            never: tokens that are not possible, besides padding.
        """
        self._limits = limits
        self._never = list(never)
        never = (limits.pad, *never)
        self._compiled = TopK.of(never, limits.eos, limits.unk, limits.unkpen)

    def __call__(
        self, scores: Tensor, n: int, demands: Optional[Demands], normalize: bool
    ) -> Choices:
        """The n best next tokens of each row, or all if there are fewer.

        Args:
            scores: float32 ``[R, V]``; may be written to.
            demands: ``None`` if all tokens are possible in all rows.
            normalize: the scores are logits, to become log-probabilities.
        """
        n = min(n, scores.size(1))
        if demands is None:
            return Choices(*self._best(scores, n, normalize))
        only = np.where(demands.last, self._limits.eos, demands.only)
        best, tokens = self._best(scores, n, normalize, only, demands.no_end)
        if demands.last.any():
            tokens[demands.last, 0] = self._limits.eos
            best[demands.last, 0] = np.maximum(best[demands.last, 0], np.finfo(np.float32).min)
        return Choices(best, tokens)

    def of_beams(
        self, scores: Tensor, n: int, demands: Optional[Demands], normalize: bool, beams: Beams
    ) -> Optional[Tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The n best extensions of each beam; other arguments as above.

        Returns:
            scores float32 with the rows' totals, rows int64 and tokens int64, ``[S, n]``, best
            first; a score of ``-inf`` means none. ``None`` where only :meth:`__call__` can help:
            there is no compiled code for it, or EOS has to come even where the model gave NaN.
        """
        if self._compiled is None or scores.device.type != "cpu":
            return None
        only, no_end = None, None
        if demands is not None:
            if demands.last.any():
                return None
            only, no_end = demands.only, demands.no_end
        found = self._compiled.of_beams(scores, n, normalize, beams, only, no_end)
        best, rows, tokens = (part.numpy() for part in found)
        return best, rows, tokens

    def _best(
        self,
        scores: Tensor,
        n: int,
        normalize: bool,
        only: Optional[np.ndarray] = None,
        no_end: Optional[np.ndarray] = None,
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Scores and tokens; see :meth:`~..engine.kernels.top_k.TopK.__call__`."""
        if self._compiled is not None and scores.device.type == "cpu":
            best, tokens = self._compiled(scores, n, normalize, only, no_end)
            return best.numpy(), tokens.numpy()
        log_probs = F.log_softmax(scores, dim=-1) if normalize else scores
        self._limits.penalize(log_probs)
        log_probs[:, self._never] = -math.inf
        if only is not None and no_end is not None:
            _demand(log_probs, only, no_end, self._limits.eos)
        return _on_host(*best_of_each(log_probs, n))


def _demand(log_probs: Tensor, only: np.ndarray, no_end: np.ndarray, eos: int) -> None:
    """``-inf`` for what is not possible, in place."""
    if no_end.any():
        rows = torch.from_numpy(no_end.nonzero()[0]).to(log_probs.device)
        log_probs[rows, eos] = -math.inf
    forced = (only != ANY).nonzero()[0]
    if forced.size:
        rows = torch.from_numpy(forced).to(log_probs.device)
        tokens = torch.from_numpy(only[forced]).to(log_probs.device)
        kept = log_probs[rows, tokens]
        log_probs[rows] = -math.inf
        log_probs[rows, tokens] = kept


def _on_host(scores: Tensor, tokens: Tensor) -> Tuple[np.ndarray, np.ndarray]:
    """In one transfer."""
    bits = torch.stack([scores.contiguous().view(torch.int32), tokens.int()]).cpu().numpy()
    return bits[0].view(np.float32), bits[1].astype(np.int64)


def best_of_each(log_probs: Tensor, n: int) -> Tuple[Tensor, Tensor]:
    """The n best tokens of each row by torch, best first.

    Args:
        log_probs: float32 ``[R, V]``.
        n: at most V.

    Returns:
        scores float32 and tokens int64, ``[R, n]``
    """
    block = _block_length(log_probs, n)
    return log_probs.topk(n, dim=1) if block == 1 else _best_of_columns(log_probs, n, block)


def _block_length(log_probs: Tensor, n: int) -> int:
    """How many tokens to a column: the least work, or 1 where a plain top-k is best."""
    vocabulary = log_probs.size(1)
    few = log_probs.numel() <= FEW_SCORES or vocabulary < SMALLEST_SCAN
    if log_probs.is_cuda or few:
        return 1
    return max(1, min(int(math.sqrt(vocabulary / n)), LARGEST_BLOCK, vocabulary // n))


def _best_of_columns(log_probs: Tensor, n: int, block: int) -> Tuple[Tensor, Tensor]:
    """Exact top-n without sorting the vocabulary.

    Tokens are dealt to columns of about ``block`` tokens. The n best tokens lie in the n columns
    with the best maxima, so only these columns need to be searched.
    """
    n_rows, vocabulary = log_probs.shape
    n_columns = vocabulary // block
    n_dealt = block * n_columns
    maxima = log_probs[:, :n_dealt].unflatten(1, (block, n_columns)).amax(dim=1)
    first = maxima[:, : vocabulary - n_dealt]
    torch.maximum(first, log_probs[:, n_dealt:], out=first)
    columns = maxima.topk(n, dim=1).indices
    steps = n_columns * torch.arange(block + 1, device=columns.device)
    tokens = (columns[:, :, None] + steps).flatten(1)
    missing = tokens >= vocabulary
    tokens.masked_fill_(missing, 0)
    scores = log_probs.gather(1, tokens).masked_fill_(missing, -math.inf)
    scores, order = scores.topk(n, dim=1)
    return scores, tokens.gather(1, order)
