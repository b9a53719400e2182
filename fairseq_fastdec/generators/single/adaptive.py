"""A search that verifies as many proposals as their time is worth, or none."""

import logging
from time import perf_counter
from typing import Dict, List, NamedTuple, Optional, Sequence

from torch import Tensor, get_num_threads, nn

from .batch import Batch
from .blocks import Blocks
from .choose_blocks import blocks_of
from .drafts import DraftSource
from .generator import SingleHypothesisGenerator
from .invocation_costs import InvocationCosts, costs_of
from .pace import Pace
from .proposals import DraftProposals, HeadProposals, ProposalSource

logger = logging.getLogger(__name__)

# The most proposals of a row.
MOST_DRAFTS, MOST_OF_TREE = 15, 15
# After so many invocations with proposals it shows whether they save time. If they do not, the
# search is greedy for a while, and longer each time.
PERIOD = 16
FIRST_REST, LONGEST_REST, GROWTH_OF_RESTS = 64, 8192, 4
# After a rest, invocations are slow until the processor has in its caches what they read. Until
# then none is measured.
WARM_UP = 4
# Every so many invocations of a rest are measured; of the first ones all are.
GREEDY_SAMPLE = 8
# Heads that are worth less than what else there is are asked again after so many invocations.
REST_OF_HEADS = 16
# What was chosen is said after so many invocations.
SAID_AFTER = 512


class AdaptiveSearch:
    """Chooses for each invocation what it verifies: nothing, drafts, or a tree of the heads'.

    What an invocation of so many tokens costs is measured first, on invocations that decode; and
    what proposals of a kind bring is learned from those before. The output is greedy decoding's.
    """

    def __init__(
        self,
        greedy: InvocationCosts,
        chains: InvocationCosts,
        drafts: Optional[DraftProposals] = None,
        heads: Optional[HeadProposals] = None,
    ) -> None:
        """
        Args:
            greedy: the costs of invocations for which nothing is looked for.
            chains: the costs of those for which something is, drafts among them.
        """
        self._greedy, self._chains = greedy, chains
        self._drafts, self._heads = drafts, heads
        self._sources: List[ProposalSource] = [s for s in (drafts, heads) if s is not None]
        self._pace = Pace()
        self._profit = Profit()
        self._n_invocations = self._heads_rest_until = 0
        self._rests_until = PERIOD
        self._warm_from = 0
        self._has_begun = self._is_up_to_date = False
        self._taken: Dict[str, List[int]] = {}

    def decode(self, batch: Batch, last: Tensor) -> None:
        """Extend every row until it ends; ``last`` int64 ``[R]`` are the tokens to begin behind."""
        most = max(source.most for source in self._sources)
        blocks = blocks_of(batch, 1 + min(most, batch.n_left(0)))
        blocks.begin(last)
        self._has_begun, self._is_up_to_date, knows_all = False, False, True
        while blocks.go_on():
            n_rows, before = batch.n_rows, perf_counter()
            self._n_invocations += 1
            is_due = self._n_invocations > self._rests_until
            if is_due and self._greedy.is_known(n_rows):
                self._look_for_proposals(batch, blocks, before)
                continue
            self._is_up_to_date = knows_all = False
            _verify(blocks, None, 0)
            if self._n_invocations <= PERIOD or self._n_invocations % GREEDY_SAMPLE == 0 or is_due:
                self._greedy.learn(n_rows, perf_counter() - before)
        if not knows_all:
            for source in self._sources:
                source.end(batch)

    def _look_for_proposals(self, batch: Batch, blocks: Blocks, before: float) -> None:
        """An invocation that began ``before`` now, with what is worth most."""
        n_rows = batch.n_rows
        if not self._is_up_to_date:
            self._catch_up(batch, blocks)
        choice = self._choose(batch, blocks, batch.n_left(1) - 1)
        _verify(blocks, choice.source, choice.n)
        for source in self._sources:
            source.learn(batch, blocks, source is choice.source and choice.n > 0)
        last = blocks.taken[-1]
        taken = last if isinstance(last, int) else int(last.sum())
        seconds = perf_counter() - before
        choice.costs.learn(n_rows * (1 + choice.n), seconds)
        self._pace.learn(taken, seconds)
        self._count(choice)
        if not choice.measures:
            saved = taken / n_rows * self._greedy.seconds(n_rows)
            rest = self._profit.rest_after(saved, seconds)
            self._rests_until = self._n_invocations + rest
            if rest:
                for source in self._sources:
                    source.costs.doubt()

    def _catch_up(self, batch: Batch, blocks: Blocks) -> None:
        for source in self._sources:
            if not self._has_begun:
                source.begin(batch)
            source.resume(batch, blocks)
        if self._n_invocations > self._warm_from + PERIOD:
            self._warm_from = self._n_invocations + WARM_UP
        self._has_begun = self._is_up_to_date = True

    def _choose(self, batch: Batch, blocks: Blocks, most: int) -> "Choice":
        """Choose what the next invocation verifies, at most so many proposals a row."""
        n_rows = batch.n_rows
        worth = n_rows - self._pace.rate * self._chains.seconds(n_rows)
        best = Choice(self._chains, None, 0, worth)
        if most < 1:
            return best
        for source in self._sources if self._n_invocations > self._warm_from else ():
            n_tokens = source.costs.to_measure(n_rows, 1 + min(most, source.most))
            if n_tokens is not None:
                n = min(n_tokens - 1, len(source.ask(batch, blocks, most)))
                return Choice(source.costs, source, n, measures=True)
        if self._drafts is not None:
            gains = self._drafts.ask(batch, blocks, most)
            n, worth = self._pace.best_size(gains, n_rows, self._chains)
            best = Choice(self._chains, self._drafts, n, worth)
        return self._better_by_heads(batch, blocks, most, best)

    def _better_by_heads(self, batch: Batch, blocks: Blocks, most: int, best: "Choice") -> "Choice":
        """Ask the heads, which takes time, if what they bring on average is worth that."""
        heads, n_rows = self._heads, batch.n_rows
        if heads is None or self._n_invocations < self._heads_rest_until:
            return best
        expected = (heads.gains[:most] * n_rows).tolist()
        if self._pace.best_size(expected, n_rows, heads.costs)[1] < best.worth:
            self._heads_rest_until = self._n_invocations + REST_OF_HEADS
        gains = heads.ask(batch, blocks, most)
        n, worth = self._pace.best_size(gains, n_rows, heads.costs)
        # What asking took is spent, whoever proposes.
        spent = heads.costs.seconds(n_rows) - self._chains.seconds(n_rows)
        if worth > best.worth - self._pace.rate * max(spent, 0):
            return Choice(heads.costs, heads, n, worth)
        return best._replace(costs=heads.costs)

    def _count(self, choice: "Choice") -> None:
        """Count what was chosen, and say it in the log once there is something to say."""
        name = choice.source.name if choice.source is not None and choice.n else "nothing"
        taken = self._taken.setdefault(name, [0, 0])
        taken[0] += 1
        taken[1] += choice.n
        if self._n_invocations == SAID_AFTER:
            logger.info(self.summary())

    def summary(self) -> str:
        """Say in a line what invocations verified and what they took."""
        n_looked = sum(n for n, _ in self._taken.values())
        verified = [f"nothing was looked for in {self._n_invocations - n_looked}"]
        for name, (n, total) in sorted(self._taken.items()):
            tokens = f" ({total / n:.1f} tokens each)" if total else ""
            verified.append(f"{name} verified in {n}{tokens}")
        costs = [f"they took {self._greedy.summary()} token(s)"]
        costs += [f"with {source.name} {source.costs.summary()}" for source in self._sources]
        return f"of {self._n_invocations} invocations: {', '.join(verified)}; {'; '.join(costs)}"


class Choice(NamedTuple):
    """The proposals that an invocation is to verify.

    Attributes:
        costs: where its time is to be learned.
        source: whose proposals; ``None`` for none.
        n: how many a row.
        worth: see :class:`Pace`.
        measures: whether it was chosen to measure what its size costs.
    """

    costs: InvocationCosts
    source: Optional[ProposalSource]
    n: int
    worth: float = 0.0
    measures: bool = False


class Profit:
    """Compares the time of invocations with proposals to what greedy decoding would have taken."""

    def __init__(self) -> None:
        self._n = 0
        self._saved = self._spent = 0.0
        self._rest = FIRST_REST

    def rest_after(self, saved: float, spent: float) -> int:
        """
        Args:
            saved: the seconds that greedy decoding takes for the tokens of an invocation.
            spent: the seconds that they took.

        Returns:
            for how many invocations nothing should be looked for.
        """
        self._n += 1
        self._saved += saved
        self._spent += spent
        if self._n < PERIOD:
            return 0
        pays = self._saved > self._spent
        self._n, self._saved, self._spent = 0, 0.0, 0.0
        if pays:
            self._rest = FIRST_REST
            return 0
        rest, self._rest = self._rest, min(GROWTH_OF_RESTS * self._rest, LONGEST_REST)
        return rest


def adaptive_search(
    generator: SingleHypothesisGenerator,
    models: Sequence[nn.Module],
    drafts: Optional[DraftSource],
    n_heads: int,
) -> AdaptiveSearch:
    """The search of a generator.

    Args:
        models: whose costs are measured. They are kept with the first one.
        drafts: where drafts are from; ``None`` for none.
        n_heads: how many heads may propose, p_1 among them; 1 for none.
    """
    options = generator.options
    kind = (str(options.engine_precision), options.shortlist, options.proposal_types)
    kind = (*kind, get_num_threads())
    greedy, chains = (costs_of(models, (name, *kind)) for name in ("greedy", "chains"))
    of_drafts = of_heads = None
    if drafts is not None:
        of_drafts = DraftProposals(drafts, MOST_DRAFTS, chains)
    if n_heads > 1:
        costs = costs_of(models, ("trees", n_heads, *kind))
        of_heads = HeadProposals(n_heads, MOST_OF_TREE, costs)
    return AdaptiveSearch(greedy, chains, of_drafts, of_heads)


def _verify(blocks: Blocks, source: Optional[ProposalSource], n: int) -> None:
    if source is None or n == 0:
        blocks.propose_nothing()
    else:
        source.propose(blocks, n)
    blocks.verify()
    blocks.keep()
