"""The scores of the next tokens, for all members of an ensemble."""

import math
from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Scores(NamedTuple):
    """p_1's scores of each member, float32 ``[..., V]``.

    Whoever has them may write into them, until the session computes others, which may use their
    memory again.

    Attributes:
        of_members: a tensor for each member.
        normalized: whether they are log-probabilities; otherwise they are logits, which only lack
            the softmax.
    """

    of_members: List[Tensor]
    normalized: bool

    @property
    def n_types(self) -> int:
        """V."""
        return self.of_members[0].size(-1)

    def averaged(self) -> Tuple[Tensor, bool]:
        """One member's as they are; several members' as the logarithms of mean probabilities.

        Returns:
            float32 ``[..., V]``, and whether they are log-probabilities.
        """
        if len(self.of_members) == 1:
            return self.of_members[0], self.normalized
        log_probs = self.of_members
        if not self.normalized:
            log_probs = [F.log_softmax(logits, dim=-1) for logits in log_probs]
        return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs)), True
