"""A batch of growing outputs, one per sentence, under fairseq's rules."""

import math
from collections.abc import Callable, Sequence
from typing import Optional

import torch
from torch import Tensor

from ...engine.rules import Limits
from ...engine.searches import Result
from ...network import Ensemble
from ..constraints import GenerationRules, forbidden_after, prefix_lengths, reading_waits
from ..hypothesis import hypothesis
from ..request import Request
from ..statistics import Statistics

StepObserver = Callable[..., None]

# On a GPU, ended rows are removed after this many steps.
LOOK_EVERY = 4


class OutputBatch:
    """B outputs, R of them in progress: row r of the network decodes ``sentence[r]``.

    Rows that have ended take no more tokens. They are removed after each step on a CPU, and less
    often on a GPU, where reading which ones have ended waits for all operations.

    Attributes:
        sentence: int64 ``[R]``, the sentence of the batch that each row decodes.
        lengths: int64 ``[R]``, the number of tokens of each row.
        shortest: no row has fewer tokens.
        max_len: the maximum length of an output, without EOS.
        look_every: ended rows are removed after this many steps.
        statistics: counts the decoder invocations.
        observer: called by :meth:`observe`.
    """

    def __init__(
        self, network: Ensemble, rules: GenerationRules, request: Request, limits: Limits
    ) -> None:
        """
        Args:
            network: has an empty row for each source.
            limits: the same for all sentences.
        """
        n_sentences, device = request.n, request.device
        self.network, self.rules, self.request = network, rules, request
        self.max_len, self._n_waived = int(limits.max_lens[0]), int(limits.waived[0])
        self.statistics = Statistics()
        self.observer: Optional[StepObserver] = None
        # These options read the outputs in each step.
        reads = rules.no_repeat_ngram_size or request.forbidden is not None or request.drafts
        is_late = reading_waits(device) and not reads and network.accepts_ended_rows
        self.look_every = LOOK_EVERY if is_late else 1
        self._steps_since, self.shortest, self._longest = 0, 0, 0
        self.sentence = torch.arange(n_sentences, device=device)
        self.lengths = torch.zeros_like(self.sentence)
        # The last column takes what is not kept.
        self._tokens = self.lengths.new_full((n_sentences, self.max_len + 2), rules.pad)
        self._scores = torch.zeros(self._tokens.shape, device=device)
        self._is_finished = torch.zeros(n_sentences, dtype=torch.bool, device=device)
        self._n_steps, self._n_idle = 0, torch.zeros_like(self.lengths)
        # Of each step: the sentences, and how many tokens they took.
        self._blocks: list[tuple[Tensor, Tensor]] = []
        # Of removed rows: sentences, lengths, steps, tokens and scores.
        self._removed: list[tuple[Tensor, ...]] = []
        self._fed = self._tokens[:, :0]

    @property
    def n_rows(self) -> int:
        """R, the number of rows."""
        return self.sentence.numel()

    @property
    def removes_at_once(self) -> bool:
        """Whether no row has ended when a step begins."""
        return self.look_every == 1

    def most_left(self, n_ahead: int) -> int:
        """The most tokens, EOS included, that a row can still take after ``n_ahead`` more; at least
        1.
        """
        return max(1, self.max_len + 1 - self.shortest - n_ahead)

    def open(self) -> Tensor:
        """Force the prefix: feed BOS and all of the prefix but its last token.

        Returns:
            the token to feed next, BOS or the last token of each row's prefix: int64 ``[R]``
        """
        last, prefix = torch.full_like(self.sentence, self.request.bos), self.request.prefix
        if prefix is None or prefix.size(1) == 0:
            return last
        prefix = prefix[:, : self.max_len]
        n_forced = prefix_lengths(prefix, self.rules.pad)
        tokens = torch.cat([last[:, None], prefix], dim=1)
        log_probs = self.network.log_probs(self.step(tokens[:, :-1]))
        log_probs = self.limited(log_probs, range(prefix.size(1)))
        scores = log_probs.gather(-1, prefix[:, :, None]).squeeze(-1)
        self.keep(prefix, scores, n_forced)
        return self.without_finished(tokens.gather(1, n_forced[:, None]).squeeze(1))[0]

    def step(self, tokens: Tensor) -> Tensor:
        """One decoder invocation; see :meth:`~fairseq_fastdec.network.Ensemble.step`.

        Args:
            tokens: int64 ``[R, T]``.

        Returns:
            features ``[R, T, C]``
        """
        self.statistics.count_step(0)  # rows are counted at the end
        self._n_steps += 1
        if not self.removes_at_once:
            self._n_idle += self._is_finished
        self._fed = tokens
        return self.network.step(tokens)

    def log_probs(self, features: Tensor, first: int) -> Tensor:
        """Log-probabilities of p_1 after each token of the last step, under fairseq's rules.

        Args:
            features: ``[R, T, C]``, the result of :meth:`step`.
            first: 0 if the first fed token was the last one of each row, 1 if it was a token that
                is not kept yet.

        Returns:
            float32 ``[R, T, V]``
        """
        log_probs = self.network.log_probs(features)
        limited = self.limited(log_probs, range(first, first + features.size(1)))
        return self._without_forbidden(limited, first)

    def limited(self, log_probs: Tensor, offsets: Sequence[int]) -> Tensor:
        """Apply the rules about lengths and single tokens in place.

        Args:
            log_probs: ``[R, T, ..., V]``.
            offsets: the T consecutive positions of the distributions relative to the row's next
                token, which is 0.
        """
        first, last = offsets[0], offsets[-1]
        is_near_start = self.shortest + first < self.rules.min_len
        if not is_near_start and self._longest + last < self.max_len:
            return self.rules.penalize(log_probs)
        steps = self.lengths[:, None] + torch.arange(first, last + 1, device=self.lengths.device)
        steps = steps.view(*steps.shape, *[1] * (log_probs.dim() - 3))
        steps = steps.expand(log_probs.shape[:-1])
        return self.rules.constrain(log_probs, steps, self.max_len, self._n_waived)

    def keep(self, tokens: Tensor, scores: Tensor, n: Tensor) -> Tensor:
        """Keep the last step's first n tokens in the network, and append the first n of ``tokens``.

        Args:
            tokens, scores, n: as for :meth:`append`.

        Returns:
            the result of :meth:`append`
        """
        self.network.keep(n)
        return self.append(tokens, scores, n)

    def append(self, tokens: Tensor, scores: Tensor, n: Tensor) -> Tensor:
        """Extend each row by the first n of its tokens, up to the first EOS among them.

        The tokens count as a block in the statistics. The network is not updated: the last token of
        an output is never fed.

        Args:
            tokens: int64 ``[R, T]``; scores: float32 ``[R, T]``; n: int64 ``[R]``.

        Returns:
            the number of tokens appended to each row: int64 ``[R]``
        """
        columns = torch.arange(tokens.size(1), device=tokens.device)
        is_taken = columns < n.masked_fill(self._is_finished, 0)[:, None]
        is_end = tokens.eq(self.rules.eos) & is_taken
        if tokens.size(1) > 1:
            is_taken &= (is_end.cumsum(dim=1) - is_end.long()).eq(0)
        nowhere = self._tokens.size(1) - 1
        places = torch.where(is_taken, self.lengths[:, None] + columns, nowhere)
        self._tokens.scatter_(1, places, tokens)
        self._scores.scatter_(1, places, scores)
        n_taken = is_taken.sum(dim=1)
        self.lengths = self.lengths + n_taken
        self._longest += tokens.size(1)
        self._is_finished |= is_end.any(dim=1)
        self._blocks.append((self.sentence, n_taken))
        return n_taken

    def without_finished(self, *of_rows: Tensor) -> tuple[Tensor, ...]:
        """The end of a step: remove finished rows, unless it is too early to look for them.

        Args:
            of_rows: tensors ``[R, ...]``.

        Returns:
            ``of_rows`` of the remaining rows
        """
        self._steps_since += 1
        if self._steps_since < self.look_every:
            return of_rows
        self._steps_since = 0
        stays = (~self._is_finished).nonzero().squeeze(1)
        if stays.numel() < self.n_rows:
            self._remove(self._is_finished.nonzero().squeeze(1))
            self.network.select(stays)
            for name in ("sentence", "lengths", "_n_idle", "_tokens", "_scores", "_is_finished"):
                setattr(self, name, getattr(self, name)[stays])
            of_rows = tuple(known[stays] for known in of_rows)
        if self.n_rows:
            bounds = torch.stack([self.lengths.min(), self.lengths.max()])
            self.shortest, self._longest = bounds.tolist()
            # The network has the first token, too.
            self.network.tighten(self._longest + 1)
        return of_rows

    def without_ended(self, tokens: Tensor, scores: Tensor, *of_rows: Tensor) -> tuple[Tensor, ...]:
        """The end of a step: remove finished rows and those whose next token is a certain EOS.

        Args:
            tokens: int64 ``[R]``, each row's certain next token, not appended yet; scores: float32
                ``[R]``.

        Returns:
            ``tokens``, ``scores`` and ``of_rows`` of the remaining rows
        """
        self.append(tokens[:, None], scores[:, None], tokens.eq(self.rules.eos).long())
        return self.without_finished(tokens, scores, *of_rows)

    def _remove(self, rows: Tensor) -> None:
        """Store the outputs of rows."""
        steps = self._n_steps - self._n_idle
        own = (self.sentence, self.lengths, steps, self._tokens, self._scores)
        self._removed.append(tuple(part[rows] for part in own))

    def tail(self, n: int, filler: int) -> Tensor:
        """The last n tokens of each row, int64 ``[R, n]``; shorter rows begin with ``filler``."""
        places = self.lengths[:, None] + torch.arange(-n, 0, device=self.lengths.device)
        return self._tokens.gather(1, places.clamp(min=0)).masked_fill(places < 0, filler)

    def observe(
        self,
        first: int,
        drafts: Tensor,
        answers: Tensor,
        scores: Tensor,
        settled: Tensor,
        widths: Optional[Tensor] = None,
    ) -> None:
        """Pass the last step to the observer (DDGviz) before its tokens are kept.

        Args:
            first: as for :meth:`log_probs`.
            drafts: int64 ``[R, T - 1]``, the drafts that were fed; answers: int64 ``[R, T]``, with
                their log-probabilities ``scores``.
            settled: int64 ``[R]``, the number of final answers; widths: int64 ``[R]``, the number
                of answers that the row needed (default: T).
        """
        if self.observer is not None:
            first_step = self.lengths + first
            self.observer(self.sentence, first_step, drafts, answers, scores, settled, widths)

    def output_lengths(self) -> Tensor:
        """The number of tokens of each output, EOS included, once all are finished: ``[B]``."""
        sentences, lengths = (torch.cat([own[part] for own in self._removed]) for part in (0, 1))
        return lengths[sentences.argsort()]

    def results(self) -> list[Result]:
        """The result of each sentence, with one hypothesis, once all are finished."""
        sentences, lengths, steps, tokens, scores = map(torch.cat, zip(*self._removed))
        blocks: list[list[int]] = [[] for _ in range(self.request.n)]
        for sentence, size in torch.cat([torch.stack(own, 1) for own in self._blocks]).tolist():
            blocks[sentence] += [size] if size else []
        columns = torch.stack([sentences, lengths, steps], 1).tolist()
        self.statistics.row_invocations += sum(n_steps for _, _, n_steps in columns)
        results = []
        for row, (sentence, n, n_steps) in enumerate(columns):
            own = scores[row, :n].clone()
            score = self.rules.score(own.tolist())
            hypotheses = [hypothesis(tokens[row, :n].clone(), score, own)]
            results.append(Result(sentence, hypotheses, n_steps, blocks=blocks[sentence]))
        return sorted(results, key=lambda result: result.id)

    def _without_forbidden(self, log_probs: Tensor, first: int) -> Tensor:
        """Apply --no-repeat-ngram-size and forbidden phrases, in place, to the distributions
        ``[R, T, V]`` after the fed tokens.
        """
        size, given = self.rules.no_repeat_ngram_size, self.request.forbidden
        if not size and given is None:
            return log_probs
        columns = (self.lengths.tolist(), self.sentence.tolist())
        for row, (length, sentence) in enumerate(zip(*columns)):
            output = [self.request.bos, *self._tokens[row, :length].tolist()]
            phrases = [] if given is None else given[sentence]
            fed = self._fed[row].tolist()
            for place in range(len(fed)):
                forbidden = forbidden_after(output + fed[1 - first : place + 1], size, phrases)
                log_probs[row, place, forbidden] = -math.inf
        return log_probs


def agreeing(drafts: Tensor, answers: Tensor) -> Tensor:
    """The number of drafts before the first that differs from its answer: ``[R, T]`` to ``[R]``."""
    return drafts.eq(answers).long().cumprod(dim=1).sum(dim=1)
