"""The beams of a batch, two tokens a step: Algorithm 1 of Imamura and Sumita 2020."""

import math
from typing import List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ...engine import EnsembleSession, compaction
from ...engine.kernels.pairs import PAIR, ChosenPairs
from ..constraints import GenerationRules, TokenConstraints
from ..expansion import Expansion
from ..statistics import Statistics
from .pair_candidates import PairChooser, ends_in, repeated
from .pair_rows import PairRows


class Ended(NamedTuple):
    """Ended hypotheses, one an element ``[H]``: an entry after so many steps, and a last pair."""

    sentences: np.ndarray
    steps: np.ndarray
    pairs: np.ndarray  # PAIR


class PairBeams:
    """All sentences of a batch; each has W rows of the session until it is done.

    All entries have the same number of tokens, so no row is ragged. A batch that all sentences have
    left makes room for the next.

    Attributes:
        device: the session's.
    """

    def __init__(
        self,
        session: EnsembleSession,
        rules: GenerationRules,
        statistics: Statistics,
        width: int,
        device: torch.device,
    ) -> None:
        """
        Args:
            rules: whose EOS is the end-of-decoding token.
            width: W, and K: a sentence is done when so many of its hypotheses have ended.
            device: the session's.
        """
        self.device = device
        self._session = session
        self._rules = rules
        self._statistics = statistics
        self._width = width
        self._rows = PairRows(width)
        self._chooser = PairChooser(rules, width, self._rows)
        self._expansion = Expansion(session, device)

    def begin(self, start: Tuple[int, ...], max_len: int, forced: Tensor) -> None:
        """Sentences of one entry, the ``start`` pair; the session has an empty row for each.

        Args:
            max_len: the most tokens of a sentence, without any end.
            forced: int64 ``[B, P]``, what the first slots must hold; padding where anything may.
        """
        n = forced.size(0)
        self._max_len = max_len
        self._forced = forced.cpu().numpy()
        self._sentences = np.arange(n)
        self._place = self._sentences  # where each sentence stands among those under way
        self._n_ended = np.zeros_like(self._sentences)
        self._ended: List[Ended] = []
        self._history: List[Tuple[np.ndarray, np.ndarray]] = []
        self._step = 0
        self._expansions = 0
        # The cost of each sentence: steps, and rows over all of them.
        self.cost = np.zeros((n, 2), dtype=np.int64)
        self._rows.begin(n, start)
        self._expansion.renew()

    @property
    def n_sentences(self) -> int:
        """The number of sentences under way."""
        return self._sentences.size

    def step(self) -> None:
        """Expand all beams by a pair; sentences that are done leave."""
        rows = self._rows
        self._statistics.count_step(rows.n_rows)
        self._statistics.count_beams(rows.n_beams)
        self._expansions += rows.n_entries
        scores = self._expansion.step(rows.tokens)
        chosen = self._chooser.choose(scores, self._constraints())
        if chosen.some_end:
            self._finalize(chosen.best)
        self._expand_beams(chosen)
        self._step += 1

    def hypotheses(self) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        tokens[last], scores[last] = ended.pairs["tokens"], ended.pairs["scores"]
        columns = ended.pairs["column"].copy()
        for step in range(longest - 2, -1, -1):
            there = (step < ended.steps).nonzero()[0]
            place, pairs = self._history[step]
            entries = pairs[place[ended.sentences[there]], columns[there]]
            tokens[there, step], scores[there, step] = entries["tokens"], entries["scores"]
            columns[there] = entries["column"]
        n = ended.steps.size
        return ended.sentences, tokens.reshape(n, -1), scores.reshape(n, -1)

    def _constraints(self) -> Optional[TokenConstraints]:
        """The constraints on the rows' left and right tokens; ``None`` if there are none.

        Limits are in tokens of the natural sentence: slot n is where its n-th token can stand. With
        the end in a left slot a sentence has no more tokens than slots before; in a right slot, one
        more. So each side obeys fairseq's rules as if it came alone.
        """
        slot, n_forced = 2 * self._step, self._forced.shape[1]
        leaves_open = self._rules.leaves_open
        if all(leaves_open(n, self._max_len, n_forced) for n in (slot, slot + 1)):
            return None
        slots = np.tile([slot, slot + 1], self._rows.n_rows)
        constraints = self._rules.constraints_at(slots, self._max_len, n_forced)
        if slot < n_forced:
            # The widths of prefixes are even.
            forced = self._forced[self._sentences, slot : slot + 2]
            forced = forced.repeat(self._rows.n_entries, axis=0).reshape(-1)
            given = forced != self._rules.pad
            constraints.only[given] = forced[given]
        return constraints

    def _finalize(self, best: np.ndarray) -> None:
        """FINALIZE: those of the W best pairs that hold an end, as long as there is room.

        The hypotheses are a set: (token, end) and (end, token) say the same.
        """
        end = self._rules.eos
        ends = ends_in(best, end) & (best["total"] > -math.inf)
        ends &= ~repeated(best, ends, end)
        n_before = self._n_ended[self._sentences]
        ends &= ends.cumsum(axis=1) <= (self._width - n_before)[:, None]
        self._n_ended[self._sentences] = n_before + ends.sum(axis=1)
        self._remember_ended(ends.nonzero()[0], best[ends])

    def _remember_ended(self, beam: np.ndarray, pairs: np.ndarray) -> None:
        self._ended.append(Ended(self._sentences[beam], np.full_like(beam, self._step), pairs))

    def _expand_beams(self, chosen: ChosenPairs) -> None:
        """EXPANDBEAM: the beams become the W best pairs without an end."""
        pairs, moves = chosen.going_on, chosen.moves
        if chosen.some_end or chosen.some_lost:
            done = self._n_ended[self._sentences] >= self._width
            done |= (pairs["total"] == -math.inf).all(axis=1)
            if done.any():
                beams = self._drop_sentences(done)
                if not self.n_sentences:
                    return
                pairs = pairs[beams]
                moves = self._rows.write(pairs, beams)
        self._rows.set_shape(*pairs.shape)
        if moves:
            self._session.select(self._rows.origins_on(self.device))
        self._history.append((self._place, pairs))

    def _drop_sentences(self, done: np.ndarray) -> np.ndarray:
        """Let the sentences leave that are ``done``; returns the beams of those that go on."""
        self._count_sentences(done)
        if done.all():
            self._sentences = self._sentences[:0]
            return self._sentences
        # In the order in which the session's sources close the gaps.
        beams = compaction(torch.from_numpy(~done)).numpy()
        self._sentences = self._sentences[beams]
        self._place = np.zeros_like(self._n_ended)
        self._place[self._sentences] = np.arange(self.n_sentences)
        return beams

    def _count_sentences(self, done: np.ndarray) -> None:
        """Note what the sentences cost that are done, and end those that have no hypothesis."""
        sentences = self._sentences[done]
        self.cost[sentences] = [self._step + 1, self._expansions]
        # Where the model knows no next pair (NaN), a sentence ends as it stands.
        lost = (done & (self._n_ended[self._sentences] == 0)).nonzero()[0]
        nothing = np.zeros(lost.size, dtype=PAIR)
        nothing["tokens"], nothing["scores"] = self._rules.eos, -math.inf
        self._remember_ended(lost, nothing)
