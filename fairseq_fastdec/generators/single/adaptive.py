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

    def __init__(self, known: Experience, contenders: Sequence["Contender"]) -> None:
        """
        Args:
            known: what is known of invocations. More is learned.
            contenders: those whose proposals take less time first.
        """
        self._known, self._contenders = known, contenders
        self._most = max(contender.source.most for contender in contenders)
        self._n_own = 0
        self._is_said = False
        self._taken: Dict[str, List[int]] = {}

    def decode(self, batch: Batch, last: Tensor) -> None:
        """Extend every row until it ends; ``last`` int64 ``[R]`` are the tokens to begin behind."""
        blocks = blocks_of(batch, 1 + self._most)
        blocks.begin(last)
        for contender in self._contenders:
            contender.has_begun = False
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
            blocks.keep()
            if is_measured:
                known.costs.learn(batch.n_rows, perf_counter() - before)
        known.n_invocations = n
        self._end(batch, known.n_invocations - first)

    def _end(self, batch: Batch, n_invocations: int) -> None:
        self._n_own += n_invocations
        for contender in self._contenders:
            contender.end(batch, n_invocations)
        if self._n_own >= SAID_AFTER and not self._is_said:
            self._is_said = True
            logger.info(self.summary())

    def _next_trial(self) -> int:
        return min(contender.known.trial.next for contender in self._contenders)

    def _look_for_proposals(self, batch: Batch, blocks: Blocks) -> None:
        """An invocation with what is worth most."""
        known, n_rows = self._known, batch.n_rows
        best = self._choose(batch, blocks, batch.n_left(1) - 1)
        before = perf_counter()
        if best.contender is None:
            blocks.propose_nothing()
        else:
            best.contender.source.propose(blocks, best.n)
        blocks.verify()
        blocks.keep()
        seconds = perf_counter() - before
        last = blocks.taken[-1]
        taken = last if isinstance(last, int) else int(last.sum())
        asked = [one for one in self._contenders if one.asked_at == known.n_invocations]
        if best.n and all(contender.known.trial.is_warm for contender in asked):
            known.costs.learn(n_rows * (1 + best.n), seconds)
        worth = known.pace.worth(taken, n_rows, best.n)
        for contender in asked:
            is_taken = contender is best.contender
            contender.learn(batch, blocks, is_taken)
            saved = worth - best.rivals_worth if is_taken else 0.0
            contender.book(known.pace.rate(n_rows), saved, n_rows)
        known.pace.learn(taken, seconds + sum(contender.spent for contender in asked))
        self._count(best)

    def _choose(self, batch: Batch, blocks: Blocks, most: int) -> "Choice":
        """Choose what the next invocation verifies, at most so many proposals a row."""
        known, n_rows, pace = self._known, batch.n_rows, self._known.pace
        alone = pace.worth(n_rows, n_rows, 0)
        best = Choice(None, 0, alone)
        if most < 1:
            return best
        for contender in self._contenders:
            if not contender.known.trial.is_on(known.n_invocations):
                continue
            # Where somebody has good proposals already, others may not be worth asking.
            if best.n and contender.hope(pace.rate(n_rows), n_rows) < best.worth - alone:
                continue
            contender.choose_heads(pace.rate(n_rows), n_rows)
            gains = contender.ask(batch, blocks, most, known.n_invocations)
            n, worth = pace.best_size(gains, n_rows)
            contender.expect(worth - alone)
            if worth > best.worth:
                best = Choice(contender, n, worth, rivals_worth=best.worth)
        return best

    def _count(self, choice: "Choice") -> None:
        name = "nothing" if choice.contender is None else choice.contender.source.name
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
            f"to ask for {contender.source.name} took {own.summary()} row(s)"
            + f" by {n_heads} heads" * (n_heads > 1)
            for contender in self._contenders
            for n_heads, own in sorted(contender.known.costs.items())
            if own.largest
        ]
        return f"of {self._n_own} invocations: {', '.join(verified)}; {'; '.join(costs)}"


class Contender:
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
        contender: whose proposals; ``None`` for none.
        n: how many a row.
        worth: see :class:`Pace`.
        rivals_worth: of the second best choice.
    """

    contender: Optional[Contender]
    n: int
    worth: float
    rivals_worth: float = 0.0


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
    known = experience_of(models, (*kind, get_num_threads()))
    sources: Dict[Hashable, ProposalSource] = {}
    if drafts is not None:
        kind_of_drafts = (options.draft_name, options.ngram_order, str(options.ngram_pool))
        sources[kind_of_drafts] = DraftProposals(drafts, MOST_DRAFTS)
    if n_heads > 1:
        generator.session.prepare_proposals(n_heads)
        sources[n_heads] = HeadProposals(n_heads, MOST_OF_TREE)
    contenders = [
        Contender(source, known.of_source(kind, source.first_rates))
        for kind, source in sources.items()
    ]
    return AdaptiveSearch(known, contenders)
