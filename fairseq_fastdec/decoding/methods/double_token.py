"""Double-token decoding: beam search over pairs of tokens (Imamura and Sumita, WAT 2020)."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.rules import Limits
from ...engine.searches import Result, SearchOptions
from ...orders.special_tokens import start_tokens
from ...orders.token_order import common_order
from ..constraints import force, read_together
from ..generator import DecodingGenerator
from ..hypothesis import Hypothesis, best_first, hypothesis
from ..natural_order import natural
from ..option_rules import given
from ..request import Request

# The best tokens of one side of a pair, best first: log-probabilities and tokens.
BestTokensOfSide = list[tuple[float, int]]


@dataclass(eq=False)
class PairHypothesis:
    """A left and a right token for each step, interleaved.

    Attributes:
        tokens, scores: y_L1, y_R1, y_L2, y_R2, ... and their log-probabilities.
        total: the sum of the scores.
        row: its row in the network, or that of the hypothesis that it extends.
    """

    tokens: list[int]
    scores: list[float]
    total: float
    row: int = 0

    def extended(self, tokens: tuple[int, int], scores: tuple[float, float]) -> "PairHypothesis":
        """The hypothesis with one more pair."""
        total = self.total + scores[0] + scores[1]
        return PairHypothesis([*self.tokens, *tokens], [*self.scores, *scores], total, self.row)

    def has_ended(self, end: int) -> bool:
        """Whether one of the tokens of the last pair is the end token."""
        return end in self.tokens[-2:]

    def ends_like(self, other: "PairHypothesis", end: int) -> bool:
        """Whether both end the same sentence, as the pairs (token, end) and (end, token) do."""
        mine, theirs = ([y for y in own.tokens[-2:] if y != end] for own in (self, other))
        return self.row == other.row and other.has_ended(end) and mine == theirs


@dataclass(eq=False)
class PairBeam:
    """The beam of one sentence.

    Attributes:
        number: the sentence's place in its batch.
        forced: the tokens that the first slots must hold; padding allows any token.
        beam: B_t, best first. It starts with an empty hypothesis.
        ended: H; of two pairs that end the same sentence, only the better one.
        n_finalized: the number of finalized pairs, in which both of them count, as in the paper.
        expansions: the number of hypotheses expanded over all steps.
    """

    number: int
    forced: list[int]
    beam: list[PairHypothesis] = field(default_factory=lambda: [PairHypothesis([], [], 0.0)])
    ended: list[PairHypothesis] = field(default_factory=list)
    n_finalized: int = 0
    expansions: int = 0


class DoubleToken(DecodingGenerator):
    """Each step extends every hypothesis by a left and a right token.

    K = W = ``--beam``, as in fairseq. All lengths are in tokens of the natural sentence:
    --max-len-a, --max-len-b, --min-len, and the length by which scores are divided.

    Pairs can be pruned as the candidates of :class:`.variable_beam.VariableBeam`, which is not in
    the paper.
    """

    accepts_blocks = False
    tokens_per_step = 2
    # Without --no-repeat-ngram-size: n-grams are unknown while tokens are added at both ends.
    honours = frozenset()
    forbids_phrases = False

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        self.order = common_order([model.decoder.token_order for model in models])
        self.rules = self.rules.of_pairs(self.order, self.dictionary)
        self._end = self.rules.eos
        self._threshold = given(self.options.prune_threshold, math.inf)
        self._most = self.options.max_candidates

    def search_options(self) -> SearchOptions:
        _, right = start_tokens(self.order, self.dictionary)
        pruning = {"prune_threshold": self._threshold, "max_candidates": self._most}
        options = {"beam": self.beam, "token_order": self.order.name, **pruning}
        return SearchOptions("pairs", {**options, "right_bos": right, "eos": self.eos})

    def first_token(self, bos: int) -> int:
        left, _ = start_tokens(self.order, self.dictionary)
        return left if bos == self.eos else bos

    def prepare_request(self, request: Request) -> None:
        if request.prefix_width:
            self.order.check_prefix()

    def limits(self, request: Request) -> Limits:
        limits = super().limits(request)
        # In pairs: an end token on the left is paired with another one.
        return limits._replace(waived=limits.waived + limits.waived % 2)

    def translate(self, request: Request) -> Iterator[Result]:
        """Decode, and yield the result of each sentence when it is done."""
        # Line 1: the beam starts with (y_L0 = BOS, y_R0 = EOS), the pair that is fed first.
        _, right = start_tokens(self.order, self.dictionary)
        self._start, self._device = [request.bos, right], request.device
        max_lens, waived = self.limits(request)
        self._max_len, self._n_forced = int(max_lens[0]), int(waived[0])
        beams = self._encode(request)
        t = 1
        while beams:
            sides = self._decode_beam(beams, t)
            for pair_beam in beams:
                self._extend(pair_beam, [next(sides) for _ in pair_beam.beam])
            # Line 4: while |H| < K, for each sentence. The last step may finalize more than K.
            done = [
                pair_beam
                for pair_beam in beams
                if pair_beam.n_finalized >= self.beam or not pair_beam.beam
            ]
            for pair_beam in done:
                found = self._best_first((own.tokens, own.scores) for own in pair_beam.ended)
                yield Result(pair_beam.number, found, t, pair_beam.expansions)
            beams = [pair_beam for pair_beam in beams if pair_beam not in done]
            self._select_rows([pairs for pair_beam in beams for pairs in pair_beam.beam])
            t += 1  # line 21

    def _encode(self, request: Request) -> list[PairBeam]:
        """Encode the sources; each beam starts with one empty hypothesis."""
        self.encode(request)
        self.statistics.encoder_invocations += 1
        forced: list[list[int]] = [[]] * request.n
        if request.prefix is not None:
            prefix = request.prefix[:, : self._max_len]
            forced = forced_slots(prefix, self.eos, self._end, self.rules.pad).tolist()
        beams = [PairBeam(number, slots) for number, slots in enumerate(forced)]
        for row, pair_beam in enumerate(beams):
            pair_beam.beam[0].row = row
        return beams

    def _decode_beam(
        self, beams: Sequence[PairBeam], t: int
    ) -> Iterator[tuple[BestTokensOfSide, BestTokensOfSide]]:
        """DECODEBEAM, line 6: the part of (Y_Lt, Y_Rt) of each hypothesis that DOUBLETOPK needs.

        Yields:
            the 2W best left tokens and the W + 1 best right tokens
        """
        fed = [pairs.tokens[-2:] or self._start for pair_beam in beams for pairs in pair_beam.beam]
        tokens = torch.tensor(fed, device=self._device)
        features = self.network.step(tokens)
        self.network.keep(torch.full_like(tokens[:, 0], 2))
        self.statistics.count_step(len(fed))
        self.statistics.count_beams(len(beams))
        log_probs = self.network.log_probs(features)
        # Slots 2t - 2 and 2t - 1. A sentence with its first end token in slot n has at most n
        # tokens, so each slot obeys the length rules of the n-th token.
        slots = torch.arange(2 * t - 2, 2 * t, device=self._device)
        steps = slots.expand(log_probs.shape[:2])
        self.rules.constrain(log_probs, steps, self._max_len, self._n_forced)
        forced = [
            pair_beam.forced[2 * t - 2 : 2 * t] for pair_beam in beams for _ in pair_beam.beam
        ]
        for row, of_row in enumerate(forced):
            for side, token in enumerate(of_row):
                if token != self.rules.pad:
                    force(log_probs[row, side], token)
        best = read_together(*log_probs.topk(min(2 * self.beam, log_probs.size(-1))))
        for scores, tokens in zip(*(part.tolist() for part in best)):
            left, right = (list(zip(*side)) for side in zip(scores, tokens))
            yield left, right[: self.beam + 1]

    def _extend(
        self, pair_beam: PairBeam, sides: Sequence[tuple[BestTokensOfSide, BestTokensOfSide]]
    ) -> None:
        """Lines 7 to 20, for one sentence."""
        before, end = pair_beam.beam, self._end
        pair_beam.expansions += len(before)
        pairs = self._unpruned(pair_beam, double_top_k(before, sides, self.beam))
        # Lines 8 to 12: FINALIZE the pairs with EOD among the W best.
        best = pairs[: self.beam]
        for n, candidate in enumerate(best):
            if not candidate.has_ended(end):
                continue
            pair_beam.n_finalized += 1
            is_known = any(candidate.ends_like(better, end) for better in best[:n])
            if not is_known:
                pair_beam.ended.append(candidate)
        # Lines 13 to 20: EXPANDBEAM by the W best pairs without EOD.
        growing = [candidate for candidate in pairs if not candidate.has_ended(end)]
        pair_beam.beam = growing[: self.beam]
        if not pair_beam.beam and not pair_beam.ended:
            # If the model gives NaN, no pair is possible: the sentence ends here.
            pair_beam.ended.append(before[0].extended((end, end), (-math.inf, -math.inf)))

    def _unpruned(
        self, pair_beam: PairBeam, candidates: list[PairHypothesis]
    ) -> list[PairHypothesis]:
        """The first M candidates of each hypothesis that are within delta of the best one.

        Args:
            candidates: best first.
        """
        best = max((own.total for own in candidates[:1] + pair_beam.ended), default=-math.inf)
        kept = list[PairHypothesis]()
        n_of_row = Counter[int]()
        for candidate in candidates:
            n_of_row[candidate.row] += 1
            is_considered = self._most is None or n_of_row[candidate.row] <= self._most
            if is_considered and candidate.total >= best - self._threshold:
                kept.append(candidate)
        return kept

    def _select_rows(self, hypotheses: Sequence[PairHypothesis]) -> None:
        """Select the rows of the network for the remaining hypotheses."""
        self.network.select([pairs.row for pairs in hypotheses])
        for row, pairs in enumerate(hypotheses):
            pairs.row = row

    def _best_first(self, ended: Iterable[tuple[list[int], list[float]]]) -> list[Hypothesis]:
        """fairseq's dicts of the K best hypotheses, given the tokens of slots and the scores."""
        pairs = (natural(*own, self.order, self._end, self.eos) for own in ended)
        found = best_first(
            hypothesis(
                torch.tensor(tokens, device=self._device),
                self.rules.score(scores),
                torch.tensor(scores, device=self._device),
            )
            for tokens, scores in pairs
        )
        return found[: self.beam]


def double_top_k(
    beam: Sequence[PairHypothesis],
    sides: Sequence[tuple[BestTokensOfSide, BestTokensOfSide]],
    width: int,
) -> list[PairHypothesis]:
    """DOUBLETOPK, line 7: the best pairs that extend a beam, best first.

    The two tokens of a pair are assumed to be independent. So the 2W best left tokens are chosen
    first, then right tokens, given the scores of the left ones. The paper keeps the 3W best pairs,
    of which W have to continue. Here all pairs of the 2W left tokens are kept, since more than 2W
    of the 3W best pairs can contain EOD.

    Args:
        beam: the hypotheses; sides: the best left and right tokens of each.
        width: W.
    """
    lefts = [
        (own.total + score, own, score, token, right)
        for own, (left, right) in zip(beam, sides)
        for score, token in left
    ]
    lefts.sort(key=lambda left: left[0], reverse=True)
    pairs = [
        own.extended((token, right_token), (score, right_score))
        for _, own, score, token, right in lefts[: 2 * width]
        for right_score, right_token in right
    ]
    possible = [own for own in pairs if own.total > -math.inf]
    return sorted(possible, key=lambda own: own.total, reverse=True)


def forced_slots(prefix: Tensor, eos: int, end: int, pad: int) -> Tensor:
    """The tokens that force sentences to begin with a prefix, by slot.

    Args:
        prefix: int64 ``[B, P]``, padded on the right; it may contain EOS.
        end: the token that ends decoding.

    Returns:
        int64 ``[B, P]``, with one more column if P is odd; padding allows any token
    """
    forced = prefix.masked_fill(prefix.eq(eos), end)
    forced = torch.nn.functional.pad(forced, (0, prefix.size(1) % 2), value=pad)
    # An end token on the left is paired with another one.
    forced[:, 1::2] = torch.where(forced[:, ::2].eq(end), end, forced[:, 1::2])
    return forced
