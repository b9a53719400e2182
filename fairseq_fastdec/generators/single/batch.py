"""The sentences of one batch on their way through the decoder, one hypothesis each."""

from functools import cached_property, lru_cache
from typing import Callable, List, Optional, Tuple, Union

import torch
from torch import Tensor

from ...engine import (
    EnsembleSession,
    Features,
    TokenTree,
    alike,
    compaction,
    extremes,
    filled,
    first_numbers,
    nothing,
)
from ...engine.kernels.blocks import RowBlocks
from ...engine.kernels.row_ends import RowEnds
from ..best_tokens import BestTokens
from ..constraints import GenerationRules, prefix_lengths
from ..hypothesis import Hypotheses, Hypothesis, hypothesis
from ..sources import Sources
from ..statistics import SentenceRecord, Statistics
from ..top_tokens import Choices

Observer = Callable[..., None]
Rowwise = Union[Tensor, Features]

# The number of distributions over the vocabulary that are held at once: 16 MiB of float32 for
# 32,000 types. More of them leave the processor's cache between product, softmax and search.
MAX_DISTRIBUTIONS = 128


class Batch:
    """Rows of an :class:`EnsembleSession` with what they have decoded so far.

    Row r decodes sentence ``sentence[r]`` of the batch and has ``lengths[r]`` tokens. Rows leave
    as soon as their hypothesis ends in EOS; sentences keep their place in the results.

    Attributes:
        sentence: int64 ``[R]``; lengths: int64 ``[R]``; finished: bool ``[R]``, which rows are to
            leave.
        max_len: the most tokens of a hypothesis, without EOS.
        n_waived: the number of first steps without the rule of --min-len.
        best_tokens: chooses the answers.
        n_rows: R, the number of sentences that are still being decoded.
    """

    def __init__(
        self,
        session: EnsembleSession,
        rules: GenerationRules,
        statistics: Statistics,
        sources: Sources,
        observer: Optional[Observer] = None,
        prefix: Optional[Tensor] = None,
        records_blocks: bool = True,
        best_tokens: Optional[BestTokens] = None,
    ) -> None:
        """
        Args:
            sources: B of them.
            observer: told of every invocation, see :meth:`observe`.
            prefix: the tokens that :meth:`open` is to force, int64 ``[B, P]``.
            records_blocks: whether the statistics tell of the tokens that were kept at once.
            best_tokens: chooses for this batch, and for others (default: one of its own).
        """
        n_sentences, device = sources.n, sources.device
        self.sources = sources
        self.session = session
        self.rules = rules
        self.max_len = rules.max_len(sources.width)
        self.source_lengths = sources.lengths
        self.best_tokens = best_tokens or BestTokens(session, rules)
        self._statistics = statistics
        self._observer = observer
        session.reset(self.max_len + 1)
        session.add(sources.net_input, prefix)
        statistics.encoder_invocations += 1

        # One column more than the longest hypothesis: what is written beyond its end goes there.
        width = self.max_len + 2
        self._tokens = filled((n_sentences, width), rules.pad, device)
        self._scores = torch.zeros(n_sentences, width, device=device)
        self._final_lengths = torch.zeros(n_sentences, dtype=torch.long, device=device)
        self.sentence = first_numbers(n_sentences, device)
        self.n_rows = n_sentences
        self.lengths = torch.zeros_like(self.sentence)
        self.finished = torch.zeros_like(self.sentence, dtype=torch.bool)
        self._open_steps = rules.open_steps(self.max_len)
        # Bounds of the lengths of rows that go on. Mostly they suffice, and nobody reads lengths.
        self._at_least = self._at_most = 0
        self._some_finished = False
        self.n_waived = 0
        self._before_first = rules.eos
        self._fed: Tuple[Optional[Tensor], Optional[TokenTree]] = (None, None)
        self._records_blocks = records_blocks
        self._fed_sentences: List[Tensor] = []
        self._block_sentences: List[Tensor] = []
        self._block_sizes: List[Union[int, Tensor]] = []

    @property
    def is_observed(self) -> bool:
        """Whether somebody listens to :meth:`observe`."""
        return self._observer is not None

    @property
    def repeats_no_ngrams(self) -> bool:
        """Whether :meth:`forbidden_after` can find anything."""
        return self.best_tokens.repeated_ngrams is not None

    @property
    def n_sentences(self) -> int:
        """The number of sentences that the batch began with."""
        return self.source_lengths.numel()

    @property
    def final_lengths(self) -> Tensor:
        """The number of tokens of each finished sentence, EOS included: int64 ``[B]``."""
        return self._final_lengths

    def n_left(self, n_ahead: int) -> int:
        """The most tokens that a row may still get besides ``n_ahead``, EOS included: 1 or more."""
        shortest = int(self.lengths.min()) if self.n_rows else 0
        return max(1, self.max_len + 1 - shortest - n_ahead)

    def open(self, bos: int, prefix: Optional[Tensor]) -> Tensor:
        """Force the prefix, and feed BOS and the prefix but for each row's last token.

        Args:
            prefix: int64 ``[B, P]`` padded on the right, or ``None``; its tokens are forced.

        Returns:
            that last token of each row that the prefix left, the next to be fed: int64 ``[R]``.
        """
        self._before_first = bos
        last = alike(self.n_rows, bos, self._tokens.device)
        if prefix is None or prefix.size(1) == 0:
            return last
        prefix = prefix[:, : self.max_len]
        self.n_waived = prefix.size(1)
        forced = prefix_lengths(prefix, self.rules.pad)
        tokens = torch.cat([last[:, None], prefix], dim=1)
        # What a prefix repeats is forced nevertheless, so nothing is forbidden here.
        log_probs = self._limited_log_probs(self.feed(tokens[:, :-1]), 0, None)
        self.keep(prefix, log_probs.gather(-1, prefix[:, :, None]).squeeze(-1), forced)
        return self.without_finished(tokens.gather(1, forced[:, None]).squeeze(1))[0]

    def feed(self, tokens: Tensor, tree: Optional[TokenTree] = None) -> Features:
        """One decoder invocation with ``[R, T]`` tokens; features are ``[R, T, C]``."""
        self.count_step()
        self._fed = (tokens, tree)
        return self.session.step(tokens, tree)

    def count_step(self) -> None:
        """Count an invocation, for who takes it without :meth:`feed`."""
        self._statistics.count_step(self.n_rows)
        self._fed_sentences.append(self.sentence)

    def feed_known(self, tokens: Tensor) -> Features:
        """:meth:`feed` tokens ``[R, T]`` that the rows have already; they stay in the cache."""
        features = self.feed(tokens)
        self.session.commit(tokens.size(1))
        return features

    def log_probs_of_block(
        self, features: Features, first_step: int, depths: Optional[Tensor] = None
    ) -> Tensor:
        """p_1's constrained log-probabilities ``[R, T, V]`` after each token of a block.

        Args:
            features: ``[R, T, C]``.
            first_step: how many tokens after the row's own the first distribution is for: 0 where
                the block begins with the row's last token, 1 where it begins with its next one.
            depths: of the tokens of a tree, int64 ``[R, T]``.
        """
        log_probs = self._limited_log_probs(features, first_step, depths)
        return self.rules.forbid(log_probs, self._forbidden_after_fed(first_step))

    def _limited_log_probs(
        self, features: Features, first_step: int, depths: Optional[Tensor]
    ) -> Tensor:
        """:meth:`log_probs_of_block` without the rule about n-grams."""
        log_probs = self.session.log_probs(features)[..., 0, :]
        steps = self.restricted_steps(first_step, log_probs.size(1), depths)
        if steps is None:
            return self.rules.penalize(log_probs)
        return self.rules.constrain(log_probs, steps, self.max_len, self.n_waived)

    def answers(
        self, features: Features, first_step: int = 0, depths: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        """p_1's best token after each token of a block.

        Args:
            features, first_step, depths: as for :meth:`log_probs_of_block`.

        Returns:
            log-probabilities float32 ``[R, T]`` and tokens int64 ``[R, T]``. The distributions
            over the vocabulary are never all in memory, however long the block.
        """
        n_rows, n_tokens = features.shape
        at_once = max(1, MAX_DISTRIBUTIONS // n_rows)
        forbidden = self._forbidden_after_fed(first_step)
        if n_tokens <= at_once:
            return self._answers_at_once(features, first_step, depths, forbidden)
        parts = []
        for first in range(0, n_tokens, at_once):
            some = slice(first, first + at_once)
            step, own = (
                (first_step + first, None) if depths is None else (first_step, depths[:, some])
            )
            not_these = None if forbidden is None else forbidden[:, some].contiguous()
            parts.append(self._answers_at_once(features[:, some], step, own, not_these))
        scores, tokens = zip(*parts)
        return torch.cat(scores, dim=1), torch.cat(tokens, dim=1)

    def _answers_at_once(
        self,
        features: Features,
        first_step: int,
        depths: Optional[Tensor],
        forbidden: Optional[Tensor],
    ) -> Tuple[Tensor, Tensor]:
        steps = self.restricted_steps(first_step, features.shape[1], depths)
        limits = (steps, self.max_len, self.n_waived)
        return self.best_tokens.of_p1(features, *limits, forbidden)

    def _forbidden_after_fed(self, first_step: int) -> Optional[Tensor]:
        """:meth:`forbidden_after` the tokens that were fed last."""
        tokens, tree = self._fed
        if tokens is None:
            return None
        return self.forbidden_after(tokens, None if tree is None else tree.parents, first_step)

    def forbidden_after(
        self, tokens: Tensor, parents: Optional[Tensor], first_step: int
    ) -> Optional[Tensor]:
        """The tokens that would repeat an n-gram after each token of the rows' blocks.

        Args:
            tokens: int64 ``[R, T]``, which the rows do not have yet, but for the first one where
                ``first_step`` is 0.
            parents: of trees, int64 ``[R, T]``.
            first_step: as for :meth:`log_probs_of_block`.

        Returns:
            int64 ``[R, T, M]``; ``None`` if there are none.
        """
        repeated = self.best_tokens.repeated_ngrams
        if repeated is None:
            return None
        starts = self.sentence * self._tokens.size(1)
        rows = (self._tokens.view(-1), starts, self.lengths, self._before_first)
        return repeated.after_blocks(*rows, tokens, parents, comes_next=first_step == 1)

    def proposals(self, features: Features, n_heads: int) -> Tensor:
        """The best tokens of heads p_2 ... p_n after each row's last position.

        Args:
            features: ``[R, C]`` of that position.

        Returns:
            int64 ``[R, n_heads - 1]``
        """
        if n_heads == 1:
            return self._tokens.new_empty(self.n_rows, 0)
        steps = self.restricted_steps(1, n_heads - 1)
        return self.best_tokens.of_heads(features, n_heads, steps, self.max_len, self.n_waived)

    def ranked_proposals(self, features: Features, n_heads: int, n_best: int) -> Choices:
        """The n best tokens of each of the heads p_2 ... p_n, best first, on the host.

        Args:
            features: ``[R, C]`` of each row's last position.

        Returns:
            scores and tokens ``[R * (n_heads - 1), n_best]``, head by head for each row
        """
        scores = self.session.ranking_scores(features, 1, n_heads, rough=True).flatten(0, 1)
        return self.ranked(scores, self.restricted_steps(1, n_heads - 1), n_best)

    def best_drafts(self, scores: Tensor, depth: int) -> Tuple[Tensor, Tensor]:
        """The best tokens of a head that sees the tokens before its own.

        Args:
            scores: ``[R, 1, V]``; may be written to.
            depth: how many tokens after each row's next one they come.

        Returns:
            scores and tokens ``[R, 1]``
        """
        steps = self.restricted_steps(depth, 1)
        return self.best_tokens.of_drafts(scores, steps, self.max_len, self.n_waived)

    def ranked_drafts(self, scores: Tensor, depth: int, n_best: int) -> Choices:
        """The n best tokens of such a head, best first, on the host.

        Args:
            scores: ``[R * W, V]`` behind W paths of each row; may be written to.
            depth: as for :meth:`best_drafts`.

        Returns:
            scores and tokens ``[R * W, n_best]``
        """
        width = scores.size(0) // self.n_rows
        steps = self.restricted_steps(depth, 1)
        return self.ranked(scores, None if steps is None else steps.expand(-1, width), n_best)

    def ranked(self, scores: Tensor, steps: Optional[Tensor], n_best: int) -> Choices:
        """The n best tokens for each step, best first.

        Args:
            scores: logits float32 ``[N, V]``, of the first V types; may be written to.
            steps: N of them, int64 ``[R, N / R]``; see :meth:`restricted_steps`.

        Returns:
            scores and tokens ``[N, n_best]``
        """
        constraints = None
        if steps is not None:
            numbers = steps.flatten().cpu().numpy()
            constraints = self.rules.constraints_at(numbers, self.max_len, self.n_waived)
        return self.best_tokens.chooser.choose_by_row(scores, n_best, constraints, normalize=True)

    def keep(
        self, tokens: Tensor, scores: Tensor, n: Union[int, Tensor], path: Optional[Tensor] = None
    ) -> Union[int, Tensor]:
        """Keep n of the tokens that were just fed, and extend each row by its first n ``tokens``.

        Args:
            tokens, scores, n: as for :meth:`append`.
            path: which of the tokens of a tree were kept, int64 ``[R, D]``, in their order
                (default: the first ones).

        Returns:
            what :meth:`append` returns.
        """
        self.session.commit(n, path)
        return self.append(tokens, scores, n)

    def append(self, tokens: Tensor, scores: Tensor, n: Union[int, Tensor]) -> Union[int, Tensor]:
        """Extend each row by the first n of its tokens, up to and including the first EOS.

        The tokens are a block in the statistics. The cache stays as it is: this is for the last
        token of an output, which nobody has to feed.

        Args:
            tokens: int64 ``[R, T]``; scores: float32 ``[R, T]``; n: one number or int64 ``[R]``.

        Returns:
            how many tokens each row really took: one number or int64 ``[R]``. Rows that took an
            EOS are finished, and wait for :meth:`without_finished`.
        """
        n_taken = self._extend_rows(tokens, scores, n)
        self.count_block(n_taken, *((n, n) if isinstance(n, int) else (0, tokens.size(1))))
        return n_taken

    def count_block(self, n_taken: Union[int, Tensor], at_least: int, at_most: int) -> None:
        """Count the tokens by which the rows have grown, for who extends them himself.

        Args:
            n_taken: one number or int64 ``[R]``.
            at_least, at_most: bounds of what each row took that goes on.
        """
        self._at_least += at_least
        self._at_most += at_most
        if self._records_blocks:
            self._block_sentences.append(self.sentence)
            self._block_sizes.append(n_taken)

    def outputs_for(self, blocks: RowBlocks) -> None:
        """Let compiled code extend the rows, and begin with those of now."""
        blocks.write_to(self._tokens, self._scores, self.rules.eos, self.rules.pad)
        blocks.bind(self.sentence, self.lengths, self.finished)

    def drop_finished(self) -> Optional[Tensor]:
        """Let the rows leave that are marked in :attr:`finished`; see :meth:`without_finished`."""
        self._some_finished = True
        return self._drop_finished()

    @cached_property
    def _ends(self) -> Optional[RowEnds]:
        """The compiled code for :meth:`append`, which blocks on the host have for themselves."""
        return RowEnds.of(self._tokens, self._scores, self.rules.eos)

    def _extend_rows(
        self, tokens: Tensor, scores: Tensor, n: Union[int, Tensor]
    ) -> Union[int, Tensor]:
        """:meth:`append` without the statistics."""
        if self._ends is not None:
            self._ends.bind(self.sentence, self.lengths, self.finished)
            n_ended, taken = self._ends.append(tokens, scores, n)
            self._some_finished = self._some_finished or n_ended > 0
            return taken if n_ended or not isinstance(n, int) else n
        is_eos = tokens.eq(self.rules.eos)
        n_taken = self._end_at_eos(is_eos, n) if bool(is_eos.any()) else n
        self._write(tokens, scores)
        self.lengths = self.lengths + n_taken
        return n_taken

    def _end_at_eos(self, is_eos: Tensor, n: Union[int, Tensor]) -> Tensor:
        """The number of the first n tokens up to and including an EOS: int64 ``[R]``."""
        offsets = torch.arange(is_eos.size(1), device=is_eos.device)
        taken = offsets < (n if isinstance(n, int) else n[:, None])
        is_eos = is_eos & taken
        after_eos = is_eos.cumsum(dim=1) - is_eos.long()
        self.finished = self.finished | is_eos.any(dim=1)
        self._some_finished = bool(self.finished.any())
        return (taken & after_eos.eq(0)).sum(dim=1)

    def _write(self, tokens: Tensor, scores: Tensor) -> None:
        """Write at each row's end; the next tokens overwrite those that the row has not taken."""
        n_new, width = tokens.size(1), self._tokens.size(1)
        start = self._at_least
        all_alike = start == self._at_most and self.n_rows == self.n_sentences
        if all_alike and start + n_new <= width:
            self._tokens[:, start : start + n_new] = tokens
            self._scores[:, start : start + n_new] = scores
            return
        offsets = torch.arange(n_new, device=tokens.device)
        positions = (self.lengths[:, None] + offsets).clamp(max=width - 1)
        self._tokens[self.sentence[:, None], positions] = tokens
        self._scores[self.sentence[:, None], positions] = scores

    def tail(self, n: int, before_first: int) -> Tensor:
        """The last n tokens of each row, int64 ``[R, n]``; ``before_first`` where it has fewer."""
        if self.n_rows == 1 and (end := int(self.lengths)) >= n:
            row = int(self.sentence)
            return self._tokens[row : row + 1, end - n : end]
        positions = self.lengths[:, None] + torch.arange(-n, 0, device=self.lengths.device)
        tokens = self._tokens[self.sentence[:, None], positions.clamp(min=0)]
        return tokens.masked_fill(positions < 0, before_first)

    def observe(
        self,
        first_step: int,
        drafts: Tensor,
        answers: Tensor,
        scores: Tensor,
        settled: Tensor,
        widths: Optional[Tensor] = None,
    ) -> None:
        """Tell the observer, if there is one, of an invocation whose tokens are not appended yet.

        Args:
            first_step: as for :meth:`log_probs_of_block`.
            drafts: int64 ``[R, T - 1]``, what was fed as a guess; answers: int64 ``[R, T]`` with
                their log-probabilities ``scores``.
            settled: int64 ``[R]``, how many answers are final; widths: int64 ``[R]``, how many of
                the T answers are the row's own (default: all).
        """
        if self.is_observed:
            first = self.lengths + first_step
            self._observer(self.sentence, first, drafts, answers, scores, settled, widths)

    def _drop_finished(self) -> Optional[Tensor]:
        """Let finished rows leave.

        Returns:
            the old index of each remaining row, or ``None`` if all remain.
        """
        if not self._some_finished:
            return None
        self._some_finished = False
        if self.n_rows == 1:
            return self._drop_all()
        done = self.sentence[self.finished]
        self._final_lengths[done] = self.lengths[self.finished]
        order = compaction(~self.finished)
        self.sentence, self.n_rows = self.sentence[order], order.numel()
        self.lengths = self.lengths[order]
        self.finished = self.finished[order]
        if order.numel():
            self.session.select(order)
        return order

    def _drop_all(self) -> Tensor:
        """Let all rows leave; they have all finished."""
        if self.n_sentences == 1:
            self._final_lengths = self.lengths
        else:
            self._final_lengths[self.sentence] = self.lengths
        device, self.n_rows = self.lengths.device, 0
        self.sentence = self.lengths = nothing(torch.long, device)
        self.finished = nothing(torch.bool, device)
        return self.sentence

    def without_finished(self, *of_rows: Rowwise) -> Tuple[Rowwise, ...]:
        """Let finished rows leave; returns what is known of those that remain, ``[R, ...]``."""
        order = self._drop_finished()
        return of_rows if order is None else tuple(known[order] for known in of_rows)

    def hypotheses(self) -> Hypotheses:
        """One list with one hypothesis for each sentence, in the batch's order."""
        return [[self._hypothesis(*place)] for place in enumerate(self._final_lengths.tolist())]

    def records(self, ids: List[int]) -> List[SentenceRecord]:
        """The cost of each sentence: its invocations, tokens and blocks."""
        lengths = (self.source_lengths.tolist(), self._final_lengths.tolist())
        counts = (self._invocations_of_sentences(), self._blocks_of_sentences())
        return [SentenceRecord(*row) for row in zip(ids, *lengths, *counts)]

    def _invocations_of_sentences(self) -> List[int]:
        """The decoder invocations that each sentence took part in."""
        if self.n_sentences == 1:
            return [sum(rows.numel() for rows in self._fed_sentences)]
        return torch.cat(self._fed_sentences).bincount(minlength=self.n_sentences).tolist()

    def _blocks_of_sentences(self) -> List[List[int]]:
        """The tokens that each sentence took at once, in order."""
        sizes = self._block_sizes
        if self.n_sentences == 1:
            # The host's numbers are cheaper than tensors of one.
            return [[n for n in map(int, sizes) if n > 0]]
        blocks: List[List[int]] = [[] for _ in range(self.n_sentences)]
        for size, rows in zip(sizes, self._block_sentences):
            n_of_rows = [size] * rows.numel() if isinstance(size, int) else size.tolist()
            for owner, n in zip(rows.tolist(), n_of_rows):
                if n > 0:
                    blocks[owner].append(n)
        return blocks

    def _steps(self, first: int, n: int) -> Tensor:
        return self.lengths[:, None] + torch.arange(first, first + n, device=self.lengths.device)

    def restricted_steps(
        self, first: int, n: int, depths: Optional[Tensor] = None
    ) -> Optional[Tensor]:
        """The steps of n distributions of each row, int64 ``[R, n]``.

        Args:
            first: how many tokens beyond the row's own the first step is for.
            depths: how far beyond the first each step is, int64 ``[R, n]`` (default: 0, 1, ...).

        Returns:
            ``None`` if no rule about lengths restricts any of them.
        """
        # A part of a tree can be deeper than it has tokens.
        n_steps = n if depths is None else 1 + int(depths.max())
        if self._known_to_be_open(first, n_steps):
            return None
        if depths is None:
            return self._steps(first, n)
        return self.lengths[:, None] + first + depths

    def end_flags(
        self, first: int, n: int, depths: Optional[Tensor] = None, by_step: bool = False
    ) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Whether EOS is impossible, and whether it alone is possible, at some steps of each row.

        Args:
            first, n, depths: as for :meth:`restricted_steps`.

        Returns:
            bool ``[R, n]``, or ``[n, R]`` if ``by_step``, on the CPU and only to be read; ``None``
            and ``None`` if no rule about lengths restricts any step.
        """
        if depths is None and self._at_least == self._at_most:
            return self._end_flags_of_all(first, n, by_step)
        steps = self.restricted_steps(first, n, depths)
        if steps is not None and by_step:
            steps = steps.t()
        return self.best_tokens.flags_at(steps, self.max_len, self.n_waived)

    def _end_flags_of_all(
        self, first: int, n: int, by_step: bool
    ) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """:meth:`end_flags` of rows of one length, which the host knows: torch is not asked."""
        if self.are_open(first, n):
            return None, None
        rules, steps = self.rules, range(self._at_least + first, self._at_least + first + n)
        no_end = tuple(rules.may_not_end(step, self.n_waived) for step in steps)
        only_end = tuple(rules.has_to_end(step, self.max_len) for step in steps)
        of_rows = (self.n_rows, by_step)
        return known_flags(no_end, *of_rows), known_flags(only_end, *of_rows)

    def _known_to_be_open(self, first: int, n: int) -> bool:
        """Whether no rule about lengths restricts n steps of any row; reads lengths if need be."""
        if not self.are_open(first, n):
            self._at_least, self._at_most = extremes(self.lengths)
        return self.are_open(first, n)

    def are_open(self, first: int, n: int) -> bool:
        """Whether the host knows that no rule about lengths restricts n steps of any row.

        Args:
            first: as for :meth:`restricted_steps`.
        """
        earliest, latest = self._at_least + first, self._at_most + first + n - 1
        return earliest in self._open_steps and latest in self._open_steps

    def _hypothesis(self, sentence: int, n: int) -> Hypothesis:
        parts = self._tokens, self._scores
        if self._tokens.is_cpu:
            # To cut out some numbers takes torch longer than numpy.
            tokens, scores = (torch.from_numpy(part.numpy()[sentence, :n].copy()) for part in parts)
        else:
            tokens, scores = (part[sentence, :n].clone() for part in parts)
        return hypothesis(tokens, self.rules.sentence_score(scores), scores)


@lru_cache(maxsize=256)
def known_flags(of_steps: Tuple[bool, ...], n_rows: int, by_step: bool) -> Tensor:
    """Flags of steps, the same for all rows: bool ``[n_rows, n]``, or ``[n, n_rows]``."""
    flags = torch.tensor(of_steps)
    shape = (n_rows, flags.numel())
    flags = flags.expand(shape)
    return (flags.t() if by_step else flags).contiguous()


def one_number(of_rows: Tensor) -> Union[int, Tensor]:
    """The number of a row that is alone; the host's numbers are cheaper than tensors ``[1]``."""
    return int(of_rows) if of_rows.numel() == 1 else of_rows
