"""A search that verifies as many proposals as their time is worth, or none."""

import logging
import math
from time import perf_counter
from typing import Dict, Hashable, List, NamedTuple, Optional, Sequence

from torch import Tensor, get_num_threads, nn

from .batch import Batch
from .blocks import Blocks
from .choose_blocks import blocks_of
from .drafts import DraftSource
from .experience import FIRST, Experience, SourceExperience, experience_of
from .faster_search import FasterSearch, Search
from .generator import SingleHypothesisGenerator
from .proposals import DraftProposals, HeadProposals, ProposalSource

logger = logging.getLogger(__name__)

# The most proposals of a row.
MOST_DRAFTS, MOST_OF_TREE = 15, 15
# Without proposals, one of so many invocations is measured.
SAMPLE = 64
# A part in 20 of what is expected of a source comes from the last time that it was asked.
SHARE_OF_LAST = 0.05
# Whoever takes so many times what he mostly takes was interrupted.
INTERRUPTED = 4
# What was chosen is said after so many invocations.
SAID_AFTER = 512


class AdaptiveSearch:
    """Chooses for each invocation what it verifies: nothing, drafts, or a tree of the heads'.

    What an invocation of so many tokens costs, and what it takes to make proposals, is measured on
    invocations that decode; what proposals bring is learned from those before. The output is greedy
    decoding's.
    """

    name = "what single invocations are worth"

    def __init__(self, known: Experience, proposers: Sequence["Proposer"]) -> None:
        """
        Args:
            known: what is known of invocations. More is learned.
            proposers: those whose proposals take less time first.
        """
        self._known, self._proposers = known, proposers
        self._most = max((proposer.source.most for proposer in proposers), default=0)
        self._n_own = 0
        self._is_said = False
        self._taken: Dict[str, List[int]] = {}

    def decode(self, batch: Batch, last: Tensor) -> None:
        """Extend every row until it ends; ``last`` int64 ``[R]`` are the tokens to begin behind."""
        blocks = blocks_of(batch, 1 + self._most)
        blocks.begin(last)
        for proposer in self._proposers:
            proposer.has_begun = False
        known, next_trial = self._known, self._next_trial()
        first = n = known.n_invocations
        while blocks.go_on():
            n += 1
            is_measured = n % SAMPLE == 0 or n <= FIRST
            if n >= next_trial:
                known.n_invocations = n
                if known.costs.is_known(batch.n_rows):
                    self._look_for_proposals(batch, blocks)
                    next_trial = self._next_trial()
                    continue
                is_measured = True
            before = perf_counter() if is_measured else 0.0
            blocks.propose_nothing()
            blocks.verify()
            if is_measured:
                known.costs.learn(batch.n_rows, perf_counter() - before)
        known.n_invocations = n
        self._end(batch, known.n_invocations - first)

    def _end(self, batch: Batch, n_invocations: int) -> None:
        self._n_own += n_invocations
        for proposer in self._proposers:
            proposer.end(batch, n_invocations)
        if self._n_own >= SAID_AFTER and not self._is_said:
            self._is_said = True
            logger.debug(self.summary())

    def _next_trial(self) -> float:
        return min((one.known.trial.next for one in self._proposers), default=math.inf)

    def _look_for_proposals(self, batch: Batch, blocks: Blocks) -> None:
        """An invocation with what is worth most."""
        known, n_rows = self._known, batch.n_rows
        best = self._choose(batch, blocks, batch.n_left(1) - 1)
        before = perf_counter()
        if best.proposer is None:
            blocks.propose_nothing()
        else:
            best.proposer.source.propose(blocks, best.n)
        blocks.verify()
        seconds = perf_counter() - before
        last = blocks.taken[-1]
        taken = last if isinstance(last, int) else int(last.sum())
        asked = [one for one in self._proposers if one.asked_at == known.n_invocations]
        if best.n and all(proposer.known.trial.is_warm for proposer in asked):
            known.costs.learn(n_rows * (1 + best.n), seconds)
        worth = known.pace.worth(taken, n_rows, best.n)
        for proposer in asked:
            is_taken = proposer is best.proposer
            proposer.learn(batch, blocks, is_taken)
            saved = worth - best.rivals_worth if is_taken else 0.0
            proposer.book(known.pace.rate(n_rows), saved, n_rows)
        known.pace.learn(taken, seconds + sum(proposer.spent for proposer in asked))
        self._count(best)

    def _choose(self, batch: Batch, blocks: Blocks, most: int) -> "Choice":
        """Choose what the next invocation verifies, at most so many proposals a row."""
        known, n_rows, pace = self._known, batch.n_rows, self._known.pace
        alone = pace.worth(n_rows, n_rows, 0)
        best = Choice(None, 0, alone)
        if most < 1:
            return best
        for proposer in self._proposers:
            if not proposer.known.trial.is_on(known.n_invocations):
                continue
            # Where somebody has good proposals already, others may not be worth asking.
            if best.n and proposer.hope(pace.rate(n_rows), n_rows) < best.worth - alone:
                continue
            proposer.choose_heads(pace.rate(n_rows), n_rows)
            gains = proposer.ask(batch, blocks, most, known.n_invocations)
            n, worth = pace.best_size(gains, n_rows)
            proposer.expect(worth - alone)
            if worth > best.worth:
                best = Choice(proposer, n, worth, rivals_worth=best.worth)
        return best

    def _count(self, choice: "Choice") -> None:
        name = "nothing" if choice.proposer is None else choice.proposer.source.name
        taken = self._taken.setdefault(name, [0, 0])
        taken[0] += 1
        taken[1] += choice.n

    def summary(self) -> str:
        """Say in a line what invocations verified and what they took."""
        n_looked = sum(n for n, _ in self._taken.values())
        verified = [f"nothing was looked for in {self._n_own - n_looked}"]
        for name, (n, total) in sorted(self._taken.items()):
            tokens = f" ({total / n:.1f} tokens each)" if total else ""
            verified.append(f"{name} verified in {n}{tokens}")
        costs = [f"they took {self._known.costs.summary()} token(s)"]
        costs += [
            f"to ask for {proposer.source.name} took {own.summary()} row(s)"
            + f" by {n_heads} heads" * (n_heads > 1)
            for proposer in self._proposers
            for n_heads, own in sorted(proposer.known.costs.items())
            if own.largest
        ]
        return f"of {self._n_own} invocations: {', '.join(verified)}; {'; '.join(costs)}"


class ChainSearch:
    """Verifies the chain of the heads in every invocation."""

    name = "chains of heads"

    def __init__(self, n_heads: int, confidence: float) -> None:
        """
        Args:
            n_heads, confidence: as for :meth:`Blocks.propose_chain`.
        """
        self._n_heads, self._confidence = n_heads, confidence

    def decode(self, batch: Batch, last: Tensor) -> None:
        """See :meth:`.faster_search.Search.decode`."""
        blocks = blocks_of(batch, self._n_heads)
        blocks.announce_chains(self._n_heads, self._confidence)
        blocks.decode(last, self._propose)

    def _propose(self, blocks: Blocks) -> None:
        blocks.propose_chain(self._n_heads, self._confidence)


class Proposer:
    """A source of proposals, what asking it costs, and whether that pays.

    Attributes:
        known: what is known of the source. More is learned.
        has_begun: whether the source knows the batch.
        asked_at: the invocation for which it was asked last.
        spent: the seconds that this took.
    """

    def __init__(self, source: ProposalSource, known: SourceExperience) -> None:
        self.source, self.known = source, known
        source.rates = known.rates
        self.has_begun = False
        self.asked_at, self.spent = 0, 0.0
        self._n_asked = 0

    def ask(self, batch: Batch, blocks: Blocks, most: int, n_invocations: int) -> List[float]:
        """:meth:`ProposalSource.ask`, for this invocation."""
        before = perf_counter()
        if not self.has_begun:
            self._n_asked = 0
            self.source.begin(batch)
        if not self.has_begun or self.asked_at != n_invocations - 1:
            self.source.resume(batch, blocks)
        self.has_begun, self.asked_at = True, n_invocations
        self._n_asked += 1
        gains = self.source.ask(batch, blocks, most)
        self.spent = perf_counter() - before
        return gains

    def choose_heads(self, rate: float, n_rows: int) -> None:
        """:meth:`ProposalSource.choose_heads`, by what their time is worth."""
        seconds = self.known.seconds
        self.source.choose_heads(lambda n_heads: rate * seconds(n_heads, n_rows) / n_rows)

    def hope(self, rate: float, n_rows: int) -> float:
        """Tokens that the source is expected to gain, less those that the time of asking costs."""
        return self.known.expected - rate * self.known.seconds(self.source.n_heads, n_rows)

    def expect(self, gain: float) -> None:
        """Learn what an invocation with its proposals is worth, above one with none."""
        known = self.known.expected
        is_first = known == math.inf
        self.known.expected = gain if is_first else known + SHARE_OF_LAST * (gain - known)

    def learn(self, batch: Batch, blocks: Blocks, was_taken: bool) -> None:
        """:meth:`ProposalSource.learn`."""
        before = perf_counter()
        self.source.learn(batch, blocks, was_taken)
        self.spent += perf_counter() - before

    def book(self, rate: float, saved: float, n_rows: int) -> None:
        """Weigh what the last answer saved, in tokens, against what asking took."""
        known, seconds = self.known, self.spent
        if known.trial.is_warm:
            known.costs[self.source.n_heads].learn(n_rows, seconds)
            mostly = known.seconds(self.source.n_heads, n_rows)
            seconds = min(seconds, INTERRUPTED * mostly or seconds)
        known.trial.learn(self.asked_at, (rate * seconds - saved) / n_rows)

    def end(self, batch: Batch, n_invocations: int) -> None:
        """End a batch of so many invocations."""
        if not self.has_begun or self._n_asked < n_invocations:
            self.source.end(batch)


class Choice(NamedTuple):
    """The proposals that an invocation is to verify.

    Attributes:
        proposer: whose proposals; ``None`` for none.
        n: how many a row.
        worth: see :class:`Pace`.
        rivals_worth: of the second best choice.
    """

    proposer: Optional[Proposer]
    n: int
    worth: float
    rivals_worth: float = 0.0


def adaptive_search(
    generator: SingleHypothesisGenerator,
    models: Sequence[nn.Module],
    drafts: Optional[DraftSource],
    n_heads: int,
) -> Search:
    """The search of a generator, which weighs each invocation.

    That takes time itself. Where the chains of heads are as good, these decode whole batches.

    Args:
        models: whose costs are measured. They are kept with the first one.
        drafts: where drafts are from; ``None`` for none.
        n_heads: how many heads may propose, p_1 among them; 1 for none.
    """
    options = generator.options
    kind = (
        str(options.engine_precision),
        options.shortlist,
        options.proposal_types,
        options.rounds_proposals,
        options.proposal_confidence,
    )
    known = experience_of(models, (*kind, get_num_threads()))
    sources: Dict[Hashable, ProposalSource] = {}
    if drafts is not None:
        kind_of_drafts = (options.draft_name, options.ngram_order, str(options.ngram_pool))
        sources[kind_of_drafts] = DraftProposals(drafts, MOST_DRAFTS)
    if n_heads > 1:
        generator.session.prepare_proposals(n_heads)
        sources[n_heads] = HeadProposals(n_heads, MOST_OF_TREE, generator.proposal_confidence)
    proposers = [
        Proposer(source, known.of_source(kind, source.first_rates))
        for kind, source in sources.items()
    ]
    by_invocation = AdaptiveSearch(known, proposers)
    if n_heads == 1:
        return by_invocation
    searches = (by_invocation, ChainSearch(n_heads, generator.proposal_confidence))
    return FasterSearch(searches, known.of_searches(tuple(sources), len(searches)))
