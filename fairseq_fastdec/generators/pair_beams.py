"""The beams of a batch, two tokens a step: Algorithm 1 of Imamura and Sumita 2020."""

import math
from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor

from ..engine import EnsembleSession, compaction, inheritance
from .limits import Limits
from .pair_candidates import Pairs, double_topk, repeated
from .statistics import Statistics


class Ended(NamedTuple):
    """Ended hypotheses, one an element ``[H]``: an entry after so many steps, and a last pair."""

    sentences: Tensor
    steps: Tensor
    columns: Tensor
    tokens: Tensor  # int64 [H, 2]
    scores: Tensor  # float32 [H, 2]


class PairBeams:
    """All sentences of a batch; each has W rows of the session until it is done.

    Row ``s * W + c`` is entry c of the s-th sentence under way. Entries that are missing are rows
    with a score of ``-inf``. All have the same number of tokens, so no row is ragged.
    """

    def __init__(
        self,
        session: EnsembleSession,
        limits: Limits,
        statistics: Statistics,
        width: int,
        eos: int,
    ) -> None:
        """
        Args:
            session: with one empty row for each sentence.
            limits: whose EOS is the end-of-decoding token.
            width: W, and K: a sentence is done when so many of its hypotheses have ended.
            eos: fairseq's EOS, which no step may give.
        """
        self._session = session
        self._limits = limits
        self._statistics = statistics
        self._width = width
        self._eos = eos

    def begin(self, start: Tuple[int, ...], max_len: int, forced: Tensor) -> None:
        """Sentences of one entry, the ``start`` pair.

        Args:
            max_len: the most tokens of a sentence, without any end.
            forced: int64 ``[B, P]``, what the first slots must hold; padding where anything may.
        """
        n = forced.size(0)
        self._max_len = max_len
        self._forced = forced
        self._sentences = torch.arange(n, device=forced.device)
        self._place = self._sentences  # where each sentence stands among those under way
        self._pairs = forced.new_tensor(start).expand(n, 1, 2)
        self._totals = torch.zeros(n, 1, device=forced.device)
        self._n_ended = torch.zeros_like(self._sentences)
        self._ended: List[Ended] = []
        self._history: List[Tuple[Tensor, Pairs]] = []
        self._step = 0
        self._expansions = 0
        # What each sentence took: steps, and rows over all of them.
        self.cost = torch.zeros(n, 2, dtype=torch.long, device=forced.device)

    @property
    def n_sentences(self) -> int:
        """How many sentences are under way."""
        return self._sentences.numel()

    def step(self) -> None:
        """Expand all beams by a pair; sentences that are done leave."""
        n_sentences, n_entries, _ = self._pairs.shape
        features = self._session.step(self._pairs.flatten(0, 1))
        self._session.commit(2)
        self._statistics.count_step(n_sentences * n_entries)
        self._statistics.count_beams(n_sentences)
        log_probs = self._session.log_probs([member.transpose(0, 1) for member in features])
        left, right = (self._constrained(log_probs[side, :, 0], side) for side in (0, 1))
        best, unfinished = double_topk(left, right, self._totals, self._width, self._limits.eos)
        self._expansions += n_entries
        self._go_on(unfinished, self._end(best, unfinished), n_entries)
        self._step += 1

    def hypotheses(self) -> Tuple[Tensor, Tensor, Tensor]:
        """All ended hypotheses, in the order of decoding.

        Returns:
            their sentences int64 ``[H]``, tokens int64 and log-probabilities float32 ``[H, N]``,
            padded on the right
        """
        ended = Ended(*(torch.cat(parts) for parts in zip(*self._ended)))
        longest = len(self._history) + 1
        steps = torch.arange(longest, device=ended.steps.device)
        there = steps < ended.steps[:, None]
        tokens, scores, columns = [ended.tokens], [ended.scores], ended.columns
        for step in range(longest - 2, -1, -1):
            place, pairs = self._history[step]
            where = (place[ended.sentences], columns)
            tokens.append(pairs.tokens[where])
            scores.append(pairs.scores[where])
            columns = torch.where(there[:, step], pairs.columns[where], columns)
        last = (steps == ended.steps[:, None])[:, :, None]
        beyond = ~there[:, :, None]
        all_tokens = torch.stack(tokens[::-1], dim=1).masked_fill_(beyond, self._limits.pad)
        all_scores = torch.stack(scores[::-1], dim=1).masked_fill_(beyond, 0)
        all_tokens = torch.where(last, ended.tokens[:, None], all_tokens)
        all_scores = torch.where(last, ended.scores[:, None], all_scores)
        return ended.sentences, all_tokens.flatten(1), all_scores.flatten(1)

    def _constrained(self, log_probs: Tensor, side: int) -> Tensor:
        """Limits in tokens of the natural sentence: slot n is where its n-th token can stand.

        With the end in a left slot a sentence has no more tokens than slots before; in a right
        slot, one more. So each side obeys fairseq's rules as if it came alone.

        Args:
            log_probs: float32 ``[R, V]`` of the left (0) or right (1) tokens.

        Returns:
            float32 ``[R, V]``
        """
        slot = 2 * self._step + side
        log_probs[:, self._eos] = -math.inf
        self._limits.constrain_step(log_probs, slot, self._max_len, self._forced.size(1))
        if slot < self._forced.size(1):
            n_entries = self._pairs.size(1)
            forced = self._forced[self._sentences, slot].repeat_interleave(n_entries)[:, None]
            kept = log_probs.gather(1, forced)
            only = torch.full_like(log_probs, -math.inf).scatter_(1, forced, kept)
            log_probs = torch.where(forced.ne(self._limits.pad), only, log_probs)
        return log_probs

    def _end(self, best: Pairs, unfinished: Pairs) -> bool:
        """FINALIZE: those of the W best pairs that hold an end, as long as there is room.

        The hypotheses are a set: (token, end) and (end, token) say the same.

        Returns:
            whether a sentence may be done. In most steps nothing ends, and this is all there is to
            know: one transfer to the host.
        """
        ends = best.tokens.eq(self._limits.eos).any(dim=-1) & (best.totals > -math.inf)
        stuck = unfinished.totals[:, :1].eq(-math.inf)
        some_end, some_stuck = torch.stack([ends.any(), stuck.any()]).tolist()
        if some_end:
            ends &= ~repeated(best, ends, self._limits.eos)
            n_before = self._n_ended[self._sentences]
            ends &= ends.long().cumsum(dim=1) <= (self._width - n_before)[:, None]
            self._n_ended[self._sentences] = n_before + ends.sum(dim=1)
            beam, choice = ends.nonzero(as_tuple=True)
            ended = (best.columns, best.tokens, best.scores)
            self._remember(beam, *(field[beam, choice] for field in ended))
        return some_end or some_stuck

    def _remember(self, beam: Tensor, columns: Tensor, tokens: Tensor, scores: Tensor) -> None:
        steps = torch.full_like(beam, self._step)
        self._ended.append(Ended(self._sentences[beam], steps, columns, tokens, scores))

    def _go_on(self, pairs: Pairs, may_be_done: bool, n_entries: int) -> None:
        """EXPANDBEAM: the beams become the W best pairs without an end."""
        beam = torch.arange(self.n_sentences, device=pairs.columns.device)
        if may_be_done:
            done = self._n_ended[self._sentences] >= self._width
            done |= pairs.totals[:, 0].eq(-math.inf)
            beam = self._without(done, beam)
            pairs = Pairs(*(field[beam] for field in pairs))
        if not self.n_sentences:
            return
        pairs = pairs.take(inheritance(pairs.columns, n_entries))
        rows = (beam[:, None] * n_entries + pairs.columns).flatten()
        self._session.select(rows)
        self._pairs, self._totals = pairs.tokens, pairs.totals
        self._history.append((self._place, pairs))

    def _without(self, done: Tensor, beam: Tensor) -> Tensor:
        """The beams of the sentences that go on, those that are ``done`` having left."""
        if not bool(done.any()):
            return beam
        self._leave(done)
        beam = compaction(~done)
        self._sentences = self._sentences[beam]
        self._place = torch.zeros_like(self._n_ended)
        self._place[self._sentences] = torch.arange(self.n_sentences, device=done.device)
        return beam

    def _leave(self, done: Tensor) -> None:
        sentences = self._sentences[done]
        cost = [self._step + 1, self._expansions]
        self.cost[sentences] = torch.tensor(cost, device=self.cost.device)
        # Where the model knows no next pair (NaN), a sentence ends as it stands.
        lost = (done & self._n_ended[self._sentences].eq(0)).nonzero().squeeze(1)
        end = lost.new_full((lost.numel(), 2), self._limits.eos)
        nothing = self._totals.new_full((lost.numel(), 2), -math.inf)
        self._remember(lost, torch.zeros_like(lost), end, nothing)
