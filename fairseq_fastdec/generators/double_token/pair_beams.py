"""The beams of a batch, two tokens a step: Algorithm 1 of Imamura and Sumita 2020."""

import math
from typing import List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ...engine import EnsembleSession, compaction, inheritance
from ..constraints import GenerationRules, TokenConstraints
from ..statistics import Statistics
from ..top_tokens import Choices, Chooser
from .pair_candidates import Pairs, double_topk, repeated


class Ended(NamedTuple):
    """Ended hypotheses, one an element ``[H]``: an entry after so many steps, and a last pair."""

    sentences: np.ndarray
    steps: np.ndarray
    columns: np.ndarray
    tokens: np.ndarray  # int64 [H, 2]
    scores: np.ndarray  # float32 [H, 2]


class PairBeams:
    """All sentences of a batch; each has W rows of the session until it is done.

    Row ``s * W + c`` is entry c of the s-th sentence under way. Entries that are missing are rows
    with a score of ``-inf``. All have the same number of tokens, so no row is ragged.
    """

    def __init__(
        self,
        session: EnsembleSession,
        rules: GenerationRules,
        statistics: Statistics,
        width: int,
    ) -> None:
        """
        Args:
            session: with one empty row for each sentence.
            rules: whose EOS is the end-of-decoding token.
            width: W, and K: a sentence is done when so many of its hypotheses have ended.
        """
        self._session = session
        self._rules = rules
        self._statistics = statistics
        self._width = width
        self._chooser = Chooser(rules)

    def begin(self, start: Tuple[int, ...], max_len: int, forced: Tensor) -> None:
        """Sentences of one entry, the ``start`` pair.

        Args:
            max_len: the most tokens of a sentence, without any end.
            forced: int64 ``[B, P]``, what the first slots must hold; padding where anything may.
        """
        n = forced.size(0)
        self._max_len = max_len
        self._device = forced.device
        self._forced = forced.cpu().numpy()
        self._sentences = np.arange(n)
        self._place = self._sentences  # where each sentence stands among those under way
        self._pairs = np.tile(np.array(start), (n, 1, 1))
        self._totals = np.zeros((n, 1), dtype=np.float32)
        self._n_ended = np.zeros_like(self._sentences)
        self._ended: List[Ended] = []
        self._history: List[Tuple[np.ndarray, Pairs]] = []
        self._step = 0
        self._expansions = 0
        # The cost of each sentence: steps, and rows over all of them.
        self.cost = np.zeros((n, 2), dtype=np.int64)

    @property
    def n_sentences(self) -> int:
        """The number of sentences under way."""
        return self._sentences.size

    def step(self) -> None:
        """Expand all beams by a pair; sentences that are done leave."""
        n_sentences, n_entries, _ = self._pairs.shape
        features = self._session.step(self._on_device(self._pairs.reshape(-1, 2)))
        self._session.commit(2)
        self._statistics.count_step(n_sentences * n_entries)
        self._statistics.count_beams(n_sentences)
        # Left tokens first: both sides' vocabularies are read at once.
        both = features.token_by_token()
        scores, normalized = self._session.scores(both)
        own = self._chooser.choose_by_row(
            scores, 2 * self._width, self._constraints(), normalize=not normalized
        )
        n_rows = n_sentences * n_entries
        left = Choices(own.scores[:n_rows], own.tokens[:n_rows])
        right = Choices(own.scores[n_rows:], own.tokens[n_rows:])
        best, unfinished = double_topk(left, right, self._totals, self._width, self._rules.eos)
        self._expansions += n_entries
        self._expand_beams(unfinished, self._finalize(best, unfinished), n_entries)
        self._step += 1

    def hypotheses(self) -> Tuple[Tensor, Tensor, Tensor]:
        """All ended hypotheses, in the order of decoding.

        Returns:
            their sentences int64 ``[H]``, tokens int64 and log-probabilities float32 ``[H, N]``,
            padded on the right
        """
        ended = Ended(*(np.concatenate(parts) for parts in zip(*self._ended)))
        longest = len(self._history) + 1
        shape = (ended.steps.size, longest, 2)
        tokens = np.full(shape, self._rules.pad)
        scores = np.zeros(shape, dtype=np.float32)
        last = (np.arange(ended.steps.size), ended.steps)
        tokens[last], scores[last] = ended.tokens, ended.scores
        columns = ended.columns.copy()
        for step in range(longest - 2, -1, -1):
            there = (step < ended.steps).nonzero()[0]
            place, pairs = self._history[step]
            where = (place[ended.sentences[there]], columns[there])
            tokens[there, step], scores[there, step] = pairs.tokens[where], pairs.scores[where]
            columns[there] = pairs.columns[where]
        return (
            self._on_device(ended.sentences),
            self._on_device(tokens).flatten(1),
            self._on_device(scores).flatten(1),
        )

    def _constraints(self) -> Optional[TokenConstraints]:
        """The constraints on all left and then all right tokens; ``None`` if there are none.

        Limits are in tokens of the natural sentence: slot n is where its n-th token can stand. With
        the end in a left slot a sentence has no more tokens than slots before; in a right slot, one
        more. So each side obeys fairseq's rules as if it came alone.
        """
        slot, n_forced = 2 * self._step, self._forced.shape[1]
        leaves_open = self._rules.leaves_open
        if all(leaves_open(n, self._max_len, n_forced) for n in (slot, slot + 1)):
            return None
        n_sentences, n_entries, _ = self._pairs.shape
        slots = np.array([slot, slot + 1]).repeat(n_sentences * n_entries)
        constraints = self._rules.constraints_at(slots, self._max_len, n_forced)
        if slot < n_forced:
            # The widths of prefixes are even.
            forced = self._forced[self._sentences, slot : slot + 2].T.reshape(-1).repeat(n_entries)
            given = forced != self._rules.pad
            constraints.only[given] = forced[given]
        return constraints

    def _finalize(self, best: Pairs, unfinished: Pairs) -> bool:
        """FINALIZE: those of the W best pairs that hold an end, as long as there is room.

        The hypotheses are a set: (token, end) and (end, token) say the same.

        Returns:
            whether a sentence may be done.
        """
        ends = (best.tokens == self._rules.eos).any(axis=-1) & (best.totals > -math.inf)
        some_end = bool(ends.any())
        if some_end:
            ends &= ~repeated(best, ends, self._rules.eos)
            n_before = self._n_ended[self._sentences]
            ends &= ends.cumsum(axis=1) <= (self._width - n_before)[:, None]
            self._n_ended[self._sentences] = n_before + ends.sum(axis=1)
            where = ends.nonzero()
            ended = (best.columns, best.tokens, best.scores)
            self._remember_ended(where[0], *(field[where] for field in ended))
        return some_end or bool((unfinished.totals[:, 0] == -math.inf).any())

    def _remember_ended(
        self, beam: np.ndarray, columns: np.ndarray, tokens: np.ndarray, scores: np.ndarray
    ) -> None:
        steps = np.full_like(beam, self._step)
        self._ended.append(Ended(self._sentences[beam], steps, columns, tokens, scores))

    def _expand_beams(self, pairs: Pairs, may_be_done: bool, n_entries: int) -> None:
        """EXPANDBEAM: the beams become the W best pairs without an end."""
        beam = np.arange(self.n_sentences)
        if may_be_done:
            done = self._n_ended[self._sentences] >= self._width
            done |= pairs.totals[:, 0] == -math.inf
            beam = self._drop_sentences(done, beam)
            pairs = Pairs(*(field[beam] for field in pairs))
        if not self.n_sentences:
            return
        n_rows = pairs.columns.size
        # A sentence has as many children as rows, so no child takes a row of another sentence.
        first_row = np.arange(0, n_rows, pairs.columns.shape[1])[:, None]
        order = inheritance((first_row + pairs.columns).reshape(-1), n_rows)
        pairs = pairs.take(order.reshape(pairs.columns.shape) - first_row)
        rows = (beam[:, None] * n_entries + pairs.columns).reshape(-1)
        self._session.select(self._on_device(rows))
        self._pairs, self._totals = pairs.tokens, pairs.totals
        self._history.append((self._place, pairs))

    def _drop_sentences(self, done: np.ndarray, beam: np.ndarray) -> np.ndarray:
        """Let the sentences leave that are ``done``; returns the beams of those that go on."""
        if not done.any():
            return beam
        self._count_sentences(done)
        beam = compaction(torch.from_numpy(~done)).numpy()
        self._sentences = self._sentences[beam]
        self._place = np.zeros_like(self._n_ended)
        self._place[self._sentences] = np.arange(self.n_sentences)
        return beam

    def _count_sentences(self, done: np.ndarray) -> None:
        """Note what the sentences cost that are done, and end those that have no hypothesis."""
        sentences = self._sentences[done]
        self.cost[sentences] = [self._step + 1, self._expansions]
        # Where the model knows no next pair (NaN), a sentence ends as it stands.
        lost = (done & (self._n_ended[self._sentences] == 0)).nonzero()[0]
        end = np.full((lost.size, 2), self._rules.eos)
        nothing = np.full((lost.size, 2), -math.inf, dtype=np.float32)
        self._remember_ended(lost, np.zeros_like(lost), end, nothing)

    def _on_device(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)
