"""Blocks of tokens: each begins with a token that is certain, and proposals follow.

This is the loop of Stern et al. 2018 (sections 3 and 4), for any source of proposals. Without
proposals it is greedy decoding.
"""

from abc import ABC, abstractmethod
from typing import Callable, List, NamedTuple, Optional, Protocol, Tuple, Union

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

    Attributes:
        taken: for each block of all rows, how many tokens they took of it.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.taken: List[Union[int, Tensor]] = []

    def decode(
        self,
        last: Tensor,
        propose: Callable[["Blocks"], object],
        rule: Optional[AcceptanceRule] = None,
    ) -> None:
        """Decode blockwise until all rows have ended.

        Args:
            last: as for :meth:`begin`.
            propose: makes the blocks of an invocation.
            rule: as for :meth:`verify`.
        """
        # p_1's token after the last accepted position is certain: it needs no verification.
        self.begin(last)
        while self.go_on():
            # Section 3: predict.
            propose(self)
            # Section 3: verify, accept. Section 4: the verification predicts for the next step.
            self.verify(rule)

    @property
    @abstractmethod
    def next_tokens(self) -> Tensor:
        """Each row's token that is certain, int64 ``[R]``; the batch has not been told of it."""

    @abstractmethod
    def begin(self, last: Tensor, proposals: Optional[Tensor] = None) -> None:
        """Feed each row's last token: its next one is certain then.

        Args:
            last: int64 ``[R]``.
            proposals: int64 ``[R, N]``, of what follows it. Those that p_1 agrees with are kept.
        """

    @abstractmethod
    def go_on(self) -> bool:
        """Let rows leave that have ended, or whose next token is EOS; whether any is left."""

    @abstractmethod
    def propose_nothing(self) -> None:
        """Make blocks of the next tokens alone."""

    @abstractmethod
    def propose(self, proposals: Tensor) -> None:
        """Make chains of the next token and these, int64 ``[R, N]``."""

    @abstractmethod
    def propose_chain(self, n_heads: int, confidence: float = 0.0) -> None:
        """Make chains of the next token and the best ones of heads p_2 ... p_n (section 3).

        Args:
            confidence: sequential heads end all chains where these have become, in the mean, less
                probable than that; 0 for chains of all heads.
        """

    def announce_chains(self, n_heads: int, confidence: float = 0.0) -> None:
        """Say that all blocks will be those of :meth:`propose_chain` with these arguments.

        So :meth:`verify` can make the next ones already, where that takes less time.
        """

    @abstractmethod
    def propose_tree(self, n_heads: int, n_proposals: int, confidence: float = 0.0) -> None:
        """Make trees of the next token and the most probable paths by heads p_2 ... p_n.

        Args:
            confidence: by sequential heads, only paths that are so probable go on.
        """

    @abstractmethod
    def verify(self, rule: Optional[AcceptanceRule] = None) -> None:
        """Feed the blocks, and extend each row by what p_1 accepts of its own.

        A row takes no token behind an EOS.

        Args:
            rule: of the proposals in chains (default: they have to be p_1's best tokens, as they
                always have to be in trees).
        """

    @abstractmethod
    def certain(self) -> Tuple[Tensor, Tensor]:
        """The tokens of chains that the last :meth:`begin` or :meth:`verify` made certain.

        They are p_1's answers, each row's next token the last of them.

        Returns:
            int64 ``[R, T]``, of which the first n ``[R]`` count; for the rows before :meth:`go_on`.
        """

    @abstractmethod
    def rest(self, n: int) -> Tuple[Tensor, Tensor]:
        """p_1's answers to rejected proposals of chains: guesses at what follows the next tokens.

        Returns:
            int64 ``[R, n]``, padded; and how many there are, int64 ``[R]``, n or more for all.
        """
