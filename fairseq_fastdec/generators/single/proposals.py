"""Sources of proposals that say how many tokens they expect to bring."""

from abc import ABC, abstractmethod
from typing import Callable, List, Optional

import numpy as np
from torch import Tensor

from .batch import Batch
from .blocks import Blocks
from .drafts import DraftSource
from .pace import AcceptanceRates, running_sums

# The kinds of the paths of a tree: so many for each factor of e by which they are less probable.
KINDS_OF_FACTOR = 2
N_PATH_KINDS = 24
# One of so many answers is by all heads. After it the number of heads is chosen again.
N_UNTIL_ALL = 16
GUESS_AT_HEAD = 0.5
# So much of what is known of the depth of trees comes from the last one.
SHARE_OF_LAST = 0.1
# Tokens of a row that it costs to be answered by so many heads.
Price = Callable[[int], float]


class ProposalSource(ABC):
    """Proposes tokens that follow each row's next one.

    Attributes:
        name: in the log.
        most: the most proposals of a row.
        rates: at which proposals are accepted, by their kinds.
        n_heads: how many heads are asked, p_1 among them; 1 for other sources.
    """

    n_heads = 1

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most = name, most
        self.rates = self.first_rates()
        self._kinds = np.zeros((0, 0), dtype=np.int64)

    @abstractmethod
    def first_rates(self) -> AcceptanceRates:
        """The rates that are believed before anything is known."""

    def begin(self, batch: Batch) -> None:
        """Prepare for another batch."""

    def resume(self, batch: Batch, blocks: Blocks) -> None:
        """Go on with rows that have grown without telling."""

    def end(self, batch: Batch) -> None:
        """Learn from the outputs of a batch, of which something was not told."""

    def choose_heads(self, price: Price) -> None:
        """Choose whom to ask, by what that costs."""

    def ask(self, batch: Batch, blocks: Blocks, most: int) -> List[float]:
        """Find proposals for each row, at most so many.

        Returns:
            how many tokens the first 1, 2, ... of them bring, all rows together.
        """
        return running_sums(self._chances(batch, blocks, min(most, self.most)))

    @abstractmethod
    def propose(self, blocks: Blocks, n: int) -> None:
        """Make blocks of the next tokens and the first n proposals that were found."""

    def learn(self, batch: Batch, blocks: Blocks, was_taken: bool) -> None:
        """Learn what became of an invocation, whosever proposals were verified."""
        if was_taken:
            accepted = blocks.accepted()
            kinds = self._kinds[:, : accepted.shape[1]]
            self.rates.learn(kinds[self._judged(accepted)], kinds[accepted])

    @abstractmethod
    def _chances(self, batch: Batch, blocks: Blocks, most: int) -> np.ndarray:
        """Find proposals, and how probably each will be accepted: float64 ``[R, N]``."""

    @abstractmethod
    def _judged(self, accepted: np.ndarray) -> np.ndarray:
        """Say of which proposals one learns whether they were right: bool ``[R, N]``."""


class DraftProposals(ProposalSource):
    """Drafts, whatever they come from: each is right if those before it are, or it is not."""

    def __init__(self, drafts: DraftSource, most: int) -> None:
        self._source = drafts
        super().__init__("drafts", most)
        self._drafts: Optional[Tensor] = None

    def first_rates(self) -> AcceptanceRates:
        # The longer the known context, the better.
        return AcceptanceRates([0.1, *[0.4] * (self._source.n_kinds - 1)])

    def begin(self, batch: Batch) -> None:
        self._source.begin(batch)

    def resume(self, batch: Batch, blocks: Blocks) -> None:
        self._source.resume(batch, blocks.next_tokens)

    def end(self, batch: Batch) -> None:
        self._source.learn_outputs(batch)

    def propose(self, blocks: Blocks, n: int) -> None:
        assert self._drafts is not None
        blocks.propose(self._drafts[:, :n])

    def learn(self, batch: Batch, blocks: Blocks, was_taken: bool) -> None:
        super().learn(batch, blocks, was_taken)
        self._source.learn(batch, *blocks.certain())

    def _chances(self, batch: Batch, blocks: Blocks, most: int) -> np.ndarray:
        kept, n_kept = blocks.rest(most)
        self._drafts, kinds = self._source.graded(batch, kept, n_kept, blocks.next_tokens)
        self._kinds = kinds.cpu().numpy()
        return self.rates.rates[self._kinds].cumprod(axis=1)

    def _judged(self, accepted: np.ndarray) -> np.ndarray:
        return np.arange(accepted.shape[1]) <= accepted.sum(axis=1, keepdims=True)


class HeadProposals(ProposalSource):
    """Trees of the paths that the heads together find most probable.

    The kinds are those of paths, by how probable they are, and behind them those of heads: whether
    a path went on to p_2's token, p_3's, ..., where the tree did.
    """

    def __init__(self, n_heads: int, most: int, confidence: float = 0.0) -> None:
        """
        Args:
            n_heads: how many heads may be asked, p_1 among them.
            confidence: as for :meth:`Blocks.propose_tree`.
        """
        self._confidence = confidence
        self._most_heads = self.n_heads = n_heads
        self._n_answers = 0
        # The share of trees in which each head has a token.
        self._shares = np.ones(n_heads - 1)
        self._heads = np.arange(n_heads - 1)
        super().__init__("heads", most)

    def first_rates(self) -> AcceptanceRates:
        # Until something is known, the heads are believed.
        costs = (np.arange(N_PATH_KINDS) + 0.5) / KINDS_OF_FACTOR
        return AcceptanceRates([*np.exp(-costs), *[GUESS_AT_HEAD] * (self._most_heads - 1)])

    def choose_heads(self, price: Price) -> None:
        self._n_answers += 1
        if self._n_answers % N_UNTIL_ALL == 0:
            self.n_heads = self._most_heads
        elif self._n_answers % N_UNTIL_ALL == 1 and self._n_answers > 1:
            gains = (self.rates.rates[N_PATH_KINDS:] * self._shares).cumsum().tolist()
            worth = [gain - price(n) for n, gain in enumerate(gains, start=2)]
            self.n_heads = 2 + worth.index(max(worth))

    def propose(self, blocks: Blocks, n: int) -> None:
        blocks.cut_tree(n)

    def learn(self, batch: Batch, blocks: Blocks, was_taken: bool) -> None:
        super().learn(batch, blocks, was_taken)
        if was_taken:
            deepest = blocks.depths().max(axis=1)
            reached = blocks.accepted().sum(axis=1)
            is_tried, is_right = (self._heads < n[:, None] for n in (deepest, reached))
            kinds = (N_PATH_KINDS + np.nonzero(which)[1] for which in (is_tried, is_right))
            self.rates.learn(*kinds)
            asked = slice(self.n_heads - 1)
            news = is_tried.mean(axis=0) - self._shares
            self._shares[asked] += SHARE_OF_LAST * news[asked]

    def _chances(self, batch: Batch, blocks: Blocks, most: int) -> np.ndarray:
        path_scores = blocks.propose_tree(self.n_heads, most, self._confidence)
        kinds = np.minimum(-KINDS_OF_FACTOR * path_scores, N_PATH_KINDS - 1)
        self._kinds = kinds.astype(np.int64)
        return self.rates.rates[self._kinds]

    def _judged(self, accepted: np.ndarray) -> np.ndarray:
        return np.ones_like(accepted)
