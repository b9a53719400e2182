"""The best next tokens of each row, as fairseq's options and a prefix have them."""

import math
from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..engine.kernels.top_k import NO_LIMITS, Beams, Best, Limits, TopK
from .constraints import ANY, GenerationRules, TokenConstraints

# A scan for column maxima reads the vocabulary at memory speed; torch's top-k does not. But many
# small calls follow the scan, and few scores do not repay them.
SMALLEST_SCAN = 10_000
FEW_SCORES = 100_000
LARGEST_BLOCK = 64


class Choices(NamedTuple):
    """The best tokens of R rows, best first, ``[R, n]``; a score of ``-inf`` means none.

    They are on the host: a search does many small operations with them, which torch takes longer to
    begin than numpy to do, above all on a GPU.
    """

    scores: np.ndarray  # float32, log-probabilities
    tokens: np.ndarray  # int64


class Chooser:
    """Chooses the best next tokens of rows, by compiled code where there is any.

    Attributes:
        compiled: that code, or ``None``.
    """

    def __init__(self, rules: GenerationRules) -> None:
        self._rules = rules
        self.compiled = TopK.of(rules.impossible, rules.eos, rules.unk, rules.unkpen)
        self._of_beams = None if self.compiled is None else self.compiled.for_beams()

    def choose_by_row(
        self,
        scores: Tensor,
        n: int,
        constraints: Optional[TokenConstraints],
        normalize: bool,
    ) -> Choices:
        """The n best next tokens of each row, or all if there are fewer.

        Args:
            scores: float32 ``[R, V]``; may be written to.
            constraints: ``None`` if all tokens are possible in all rows.
            normalize: the scores are logits, to become log-probabilities.
        """
        n = min(n, scores.size(1))
        if self.compiled is not None and scores.device.type == "cpu":
            best, tokens = self.compiled(scores, n, normalize, _limits(constraints))
            return Choices(best.numpy(), tokens.numpy())
        log_probs = self.constrained(scores, constraints, normalize)
        return Choices(*_on_host(*best_of_each(log_probs, n)))

    def constrained(
        self, scores: Tensor, constraints: Optional[TokenConstraints], normalize: bool
    ) -> Tensor:
        """All rules and constraints applied by torch, in place.

        Args:
            scores, constraints, normalize: as for :meth:`choose_by_row`.

        Returns:
            log-probabilities float32 ``[R, V]``, ``-inf`` of what is impossible
        """
        log_probs = F.log_softmax(scores, dim=-1) if normalize else scores
        self._rules.penalize(log_probs)
        if constraints is None:
            return log_probs
        if constraints.forbidden is not None:
            forbidden = torch.from_numpy(constraints.forbidden).to(log_probs.device)
            self._rules.forbid(log_probs, forbidden)
        only_eos, eos = constraints.only_eos, self._rules.eos
        only = np.where(only_eos, eos, constraints.only)
        _restrict(log_probs, only, constraints.no_eos, eos)
        if only_eos.any():
            rows = torch.from_numpy(only_eos.nonzero()[0]).to(log_probs.device)
            least = torch.finfo(log_probs.dtype).min
            log_probs[rows, eos] = log_probs[rows, eos].clamp(min=least)
        return log_probs

    def choose_by_beam(
        self,
        members: Sequence[Tensor],
        n: int,
        n_per_row: Optional[int],
        constraints: Optional[TokenConstraints],
        normalize: bool,
        beams: Beams,
    ) -> Optional[Best]:
        """The n best extensions of each beam; other arguments as for :meth:`choose_by_row`.

        Args:
            members: the scores of each model, whose probabilities are averaged.
            n_per_row: the most of them that may extend the same row (default: any number).

        Returns:
            the extensions, in memory that the next call uses again; ``None`` where there is no
            compiled code for it, and only :meth:`choose_by_row` can help.
        """
        if self._of_beams is None or members[0].device.type != "cpu":
            return None
        n_per_row = n if n_per_row is None else n_per_row
        return self._of_beams(members, n, n_per_row, normalize, beams, _limits(constraints))


def _limits(constraints: Optional[TokenConstraints]) -> Limits:
    """The constraints as compiled code takes them."""
    if constraints is None:
        return NO_LIMITS
    has_to_end = constraints.only_eos if constraints.only_eos.any() else None
    return Limits(constraints.only, constraints.no_eos, has_to_end, constraints.forbidden)


def _restrict(log_probs: Tensor, only: np.ndarray, no_eos: np.ndarray, eos: int) -> None:
    """Set to ``-inf``, in place, the tokens that the constraints forbid."""
    if no_eos.any():
        rows = torch.from_numpy(no_eos.nonzero()[0]).to(log_probs.device)
        log_probs[rows, eos] = -math.inf
    forced = (only != ANY).nonzero()[0]
    if forced.size:
        rows = torch.from_numpy(forced).to(log_probs.device)
        tokens = torch.from_numpy(only[forced]).to(log_probs.device)
        kept = log_probs[rows, tokens]
        log_probs[rows] = -math.inf
        log_probs[rows, tokens] = kept


def _on_host(scores: Tensor, tokens: Tensor) -> Tuple[np.ndarray, np.ndarray]:
    """Both as arrays on the host, in one transfer."""
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
    """The number of tokens to a column with the least work; 1 where a plain top-k is best."""
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
