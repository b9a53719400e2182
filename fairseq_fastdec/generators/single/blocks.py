"""Blocks of tokens: each begins with a token that is certain, and proposals follow.

This is the loop of Stern et al. 2018 (sections 3 and 4), for any source of proposals. Without
proposals it is greedy decoding.
"""

from abc import ABC, abstractmethod
from typing import List, NamedTuple, Optional, Protocol, Union

from torch import Tensor

from .batch import Batch


class Verdicts(NamedTuple):
    """Answers of p_1 about the proposals of R rows.

    Attributes:
        proposals: int64 ``[R, T]``.
        best: int64 ``[R, T]``, p_1's best tokens in their places.
        scores: float32 ``[R, T]``, p_1's log-probabilities of the proposals; ``-inf`` where
            fairseq's rules forbid them.
        distributions: p_1's log-probabilities of all tokens, float32 ``[R, T, V]``, if the rule
            asked for them.
    """

    proposals: Tensor
    best: Tensor
    scores: Tensor
    distributions: Optional[Tensor]


class AcceptanceRule(Protocol):
    """Judges every proposal on its own; the longest beginning of good ones is accepted.

    Attributes:
        is_exact: whether a proposal is good if it is p_1's best token, and only then.
        needs_distributions: whether p_1's whole distributions have to be there.
    """

    is_exact: bool
    needs_distributions: bool

    def judge(self, verdicts: Verdicts) -> Tensor:
        """Whether each proposal is good enough: bool ``[R, T]``."""


class Blocks(ABC):
    """The rows of a batch, each with a next token that is certain: p_1's best after its own.

        blocks.begin(last)               # feed the last tokens that are known
        while blocks.go_on():            # rows leave that have ended
            blocks.propose_chain(k, ...) # predict
            blocks.verify(rule)          # the verification predicts the next token, too
            blocks.keep()                # accept

    Attributes:
        taken: for each block of all rows, how many tokens they took of it.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.taken: List[Union[int, Tensor]] = []

    @abstractmethod
    def begin(self, last: Tensor) -> None:
        """Feed each row's last token, int64 ``[R]``: its next one is certain then."""

    @abstractmethod
    def go_on(self) -> bool:
        """Let rows leave that have ended, or whose next token is EOS; whether any is left."""

    @abstractmethod
    def propose_nothing(self) -> None:
        """Make blocks of the next tokens alone."""

    @abstractmethod
    def propose_chain(self, n_heads: int, rough: bool) -> None:
        """Make chains of the next token and the best ones of heads p_2 ... p_n (section 3).

        Args:
            rough: only p_1's own tokens stay, so proposals may be computed roughly.
        """

    @abstractmethod
    def propose_tree(self, n_heads: int, n_proposals: int) -> None:
        """Make trees of the next token and the most probable paths by heads p_2 ... p_n."""

    @abstractmethod
    def verify(self, rule: Optional[AcceptanceRule] = None) -> None:
        """Feed the blocks, and find how much of each p_1 accepts.

        Args:
            rule: of the proposals in chains (default: they have to be p_1's best tokens, as they
                always have to be in trees).
        """

    @abstractmethod
    def keep(self) -> None:
        """Extend each row by what is accepted of its block, up to and including an EOS."""
