"""Trees of tokens: a step may feed several tokens that follow the same one."""

from functools import cached_property

import torch
from torch import Tensor


class TokenTree:
    """A tree of tokens for each row of a step: several ways in which the row could go on.

    A token sees the tokens that its row has committed, the tokens on the path to it, and itself.
    Its position is that of a token that follows them. So it has the features that it would have if
    only that path had been fed.
    """

    def __init__(self, parents: Tensor) -> None:
        """
        Args:
            parents: int64 ``[R, T]``, the index of the token that each follows, smaller than its
                own; -1 for a token that follows the row itself.
        """
        self.parents = parents

    @cached_property
    def sees(self) -> Tensor:
        """``[r, t, u]`` says whether u is on the path to t, or t itself: bool ``[R, T, T]``."""
        n_rows, n_tokens = self.parents.shape
        sees = torch.eye(n_tokens, dtype=torch.bool, device=self.parents.device)
        sees = sees.repeat(n_rows, 1, 1)
        rows = torch.arange(n_rows, device=self.parents.device)
        for token in range(1, n_tokens):
            parent = self.parents[:, token]
            follows = parent.ge(0)[:, None]
            sees[:, token] |= sees[rows, parent.clamp(min=0)] & follows
        return sees

    @cached_property
    def depths(self) -> Tensor:
        """The number of the tree's tokens on the path to each: int64 ``[R, T]``."""
        return self.sees.sum(dim=-1) - 1
