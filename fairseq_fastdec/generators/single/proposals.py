"""Sources of proposals that say how many tokens they expect to bring."""

from abc import ABC, abstractmethod
from typing import List, Optional

import numpy as np
from torch import Tensor

from .batch import Batch
from .blocks import Blocks
from .drafts import DraftSource
from .invocation_costs import InvocationCosts
from .pace import AcceptanceRates, running_sums

# A part in 20 of what is expected of a source comes from the last time that it was asked.
SHARE_OF_LAST = 0.05
# The kinds of the paths of a tree: so many for each factor of e by which they are less probable.
KINDS_OF_FACTOR = 2
N_PATH_KINDS = 24


class ProposalSource(ABC):
    """Proposes tokens that follow each row's next one.

    Attributes:
        name: in the log.
        most: the most proposals of a row.
        costs: of the invocations with its proposals, their making included.
    """

    def __init__(self, name: str, most: int, costs: InvocationCosts) -> None:
        self.name, self.most, self.costs = name, most, costs
        # What a row's 1, 2, ... proposals bring on average.
        self.gains = np.zeros(0)
        self._rates: AcceptanceRates
        self._kinds = np.zeros((0, 0), dtype=np.int64)

    def begin(self, batch: Batch) -> None:
        """Prepare for another batch."""

    def resume(self, batch: Batch, blocks: Blocks) -> None:
        """Go on with rows that have grown without telling."""

    def end(self, batch: Batch) -> None:
        """Learn from the outputs of a batch, of which something was not told."""

    def ask(self, batch: Batch, blocks: Blocks, most: int) -> List[float]:
        """Find proposals for each row, at most so many.

        Returns:
            how many tokens the first 1, 2, ... of them bring, all rows together.
        """
        gains = running_sums(self._chances(batch, blocks, min(most, self.most)))
        self._expect(np.asarray(gains) / batch.n_rows)
        return gains

    @abstractmethod
    def propose(self, blocks: Blocks, n: int) -> None:
        """Make blocks of the next tokens and the first n proposals that were found."""

    def learn(self, batch: Batch, blocks: Blocks, was_taken: bool) -> None:
        """Learn what became of an invocation, whosever proposals were verified."""
        if was_taken:
            accepted = blocks.accepted().cpu().numpy()
            kinds = self._kinds[:, : accepted.shape[1]]
            self._rates.learn(kinds[self._judged(accepted)], kinds[accepted])

    @abstractmethod
    def _chances(self, batch: Batch, blocks: Blocks, most: int) -> np.ndarray:
        """Find proposals, and how probably each will be accepted: float64 ``[R, N]``."""

    @abstractmethod
    def _judged(self, accepted: np.ndarray) -> np.ndarray:
        """Say of which proposals one learns whether they were right: bool ``[R, N]``."""

    def _expect(self, gains: np.ndarray) -> None:
        if gains.size < self.gains.size:
            return
        known = np.append(self.gains, gains[self.gains.size :])
        self.gains = known + SHARE_OF_LAST * (gains - known)


class DraftProposals(ProposalSource):
    """Drafts, whatever they come from: each is right if those before it are, or it is not."""

    def __init__(self, drafts: DraftSource, most: int, costs: InvocationCosts) -> None:
        super().__init__("drafts", most, costs)
        self._source = drafts
        # The longer the known context, the better.
        self._rates = AcceptanceRates([0.1, *[0.4] * (drafts.n_kinds - 1)])
        self._drafts: Optional[Tensor] = None

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
        return self._rates.rates[self._kinds].cumprod(axis=1)

    def _judged(self, accepted: np.ndarray) -> np.ndarray:
        return np.arange(accepted.shape[1]) <= accepted.sum(axis=1, keepdims=True)


class HeadProposals(ProposalSource):
    """Trees of the paths that the heads together find most probable."""

    def __init__(self, n_heads: int, most: int, costs: InvocationCosts) -> None:
        super().__init__("heads", most, costs)
        self._n_heads = n_heads
        # Until something is known, the heads are believed.
        self._rates = AcceptanceRates(
            np.exp(-(np.arange(N_PATH_KINDS) + 0.5) / KINDS_OF_FACTOR).tolist()
        )

    def propose(self, blocks: Blocks, n: int) -> None:
        blocks.cut_tree(n)

    def _chances(self, batch: Batch, blocks: Blocks, most: int) -> np.ndarray:
        path_scores = blocks.propose_tree(self._n_heads, most).cpu().numpy()
        kinds = np.minimum(-KINDS_OF_FACTOR * path_scores, N_PATH_KINDS - 1)
        self._kinds = kinds.astype(np.int64)
        return self._rates.rates[self._kinds]

    def _judged(self, accepted: np.ndarray) -> np.ndarray:
        return np.ones_like(accepted)
