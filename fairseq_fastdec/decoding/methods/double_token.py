"""Double-token decoding: beam search over pairs of tokens (Imamura and Sumita, WNGT 2020)."""

import math
from dataclasses import dataclass, field, replace
from typing import List, Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...data.special_tokens import EOD, end_token, start_tokens
from ...data.token_order import TokenOrder
from ...generators.constraints import prefix_lengths
from ...generators.hypothesis import Hypotheses, Hypothesis, hypothesis
from ...generators.sources import Sources
from ...generators.statistics import BeamRecord, SentenceRecord
from .generator import Method, allowed_types, union


@dataclass(eq=False)
class Pairs:
    """A hypothesis: pairs of a left and a right token, one pair behind the other.

    Attributes:
        tokens, scores: left and right tokens in turn, and their log-probabilities.
        total: the sum of the scores.
        row: the row of the network that holds it, or held the hypothesis that it extends.
    """

    tokens: List[int]
    scores: List[float]
    total: float
    row: int = 0

    def has(self, token: int) -> bool:
        """Whether the last pair has a token on one of its sides."""
        return token in self.tokens[-2:]

    def content(self, end: int) -> Tuple[int, ...]:
        """The tokens of the last pair but for end tokens."""
        return tuple(token for token in self.tokens[-2:] if token != end)


@dataclass(eq=False)
class PairBeam:
    """B_t and H of one sentence, in the names of Algorithm 1.

    Attributes:
        sentence: its place in the batch.
        forced: int64 ``[P]``, the tokens of the first slots; padding leaves a slot open.
        hypotheses: H, those that have ended.
        beam: B_t, best first.
        expansions: how many hypotheses were expanded over all steps.
    """

    sentence: int
    forced: List[int]
    hypotheses: List[Pairs] = field(default_factory=list)
    beam: List[Pairs] = field(default_factory=lambda: [Pairs([], [], 0.0)])
    expansions: int = 0


class DoubleToken(Method):
    """Each step extends every hypothesis by a left and a right token.

    K = W = ``--beam``, as in fairseq. All lengths are in tokens of the natural sentence: --max-len,
    --min-len, and the length that scores are divided by.
    """

    tokens_per_step = 2
    # Which tokens come before a token is not known while tokens come from both ends.
    honours = frozenset()

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        self.order = _common_order([model.decoder.token_order for model in models])
        if EOD not in self.dictionary:
            raise ValueError(
                f"--decoding double_token: the target dictionary has no {EOD}; use --task "
                "translation_double_token"
            )
        # fairseq's limit: padding is never chosen.
        self._width = min(self.beam, len(self.dictionary) - 1)
        self.rules = replace(
            self.rules,
            eos=end_token(self.order, self.dictionary),
            # Sentences end with EOD, and begin with EOS on one side.
            never=(self.eos,),
            # The longest sentence and its end tokens have to fit into pairs.
            max_positions=self.rules.max_positions - self.rules.max_positions % 2,
        )

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        max_len = self.rules.max_len(sources.width)
        forced = self._forced(prefix, max_len, sources)
        self.network.reset()
        if self.shortlist is not None:
            allowed = allowed_types(self.shortlist, sources.content, forced)
            self.network.restrict(union(self.shortlist, allowed, sources.device))
        self.network.encode(sources.net_input)
        self.statistics.encoder_invocations += 1
        # Line 1: B_0 <- {(BOS, EOS)}, the pair that is fed first. Line 2: H <- {}.
        left, right = start_tokens(self.order, self.dictionary)
        self._start = [left if bos == self.eos else bos, right]
        sentences = [PairBeam(number, own) for number, own in enumerate(forced.tolist())]
        for row, sentence in enumerate(sentences):
            sentence.beam[0].row = row
        records: List[SentenceRecord] = []
        hypotheses: Hypotheses = [[] for _ in ids]
        n_source = sources.lengths.tolist()
        under_way, step = sentences, 0
        # Line 4: while |H| < K
        while under_way:
            done = self._step(under_way, step, max_len, forced.size(1), sources.device)
            step += 1
            for own in done:
                found = [self._natural(pairs, sources.device) for pairs in own.hypotheses]
                found.sort(key=lambda one: one["score"].item(), reverse=True)
                hypotheses[own.sentence] = found
                costs = (n_source[own.sentence], found[0]["tokens"].numel(), step, [])
                records.append(BeamRecord(ids[own.sentence], *costs, own.expansions))
            under_way = [own for own in under_way if own not in done]
            self._select([pairs for own in under_way for pairs in own.beam], sources.device)
        return hypotheses, records

    def _step(
        self,
        sentences: Sequence[PairBeam],
        step: int,
        max_len: int,
        n_forced: int,
        device: torch.device,
    ) -> List[PairBeam]:
        """Lines 5 to 21, for all sentences; returns those that are done."""
        end, width = self.rules.eos, self._width
        # Line 6: (Y_Lt, Y_Rt) <- DECODEBEAM(B_{t-1}, h_enc)
        fed = [pairs.tokens[-2:] or self._start for own in sentences for pairs in own.beam]
        features = self.network.step(torch.tensor(fed, device=device))
        self.network.keep(torch.full((len(fed),), 2, device=device))
        self.statistics.count_step(len(fed))
        self.statistics.count_beams(len(sentences))
        sides = iter(self._best_of_sides(features, sentences, step, max_len, n_forced))
        done = []
        for own in sentences:
            first, own.expansions = own.beam[0], own.expansions + len(own.beam)
            # Line 7: DOUBLETOPK
            pairs = double_top_k([(known, *next(sides)) for known in own.beam], width)
            # Lines 8 to 12: of the W best pairs those with EOD are hypotheses.
            for candidate in pairs[:width]:
                if candidate.has(end) and len(own.hypotheses) < width:
                    if not _is_known(candidate, pairs[: pairs.index(candidate)], end):
                        own.hypotheses.append(candidate)
            # Lines 13 to 20: the W best pairs without EOD are the next beam.
            own.beam = [candidate for candidate in pairs if not candidate.has(end)][:width]
            if len(own.hypotheses) >= width or not own.beam:
                # A model whose numbers are NaN allows no pair: the sentence ends as it stands.
                tokens, scores = [end, end], [-math.inf, -math.inf]
                as_it_stands = Pairs(first.tokens + tokens, first.scores + scores, -math.inf)
                own.hypotheses = own.hypotheses or [as_it_stands]
                done.append(own)
        return done

    def _best_of_sides(
        self,
        features: Tensor,
        sentences: Sequence[PairBeam],
        step: int,
        max_len: int,
        n_forced: int,
    ) -> List[Tuple[List[Tuple[float, int]], List[Tuple[float, int]]]]:
        """The 2W best left tokens of each hypothesis, and the W + 1 best right ones, best first.

        With an end token in slot n a sentence has n tokens at most, on whichever side the slot is.
        So each side obeys fairseq's rules about lengths as the n-th token of a sentence would.

        Args:
            features: ``[R, 2, C]``.
        """
        log_probs = self.network.log_probs(features)
        slots = torch.tensor([2 * step, 2 * step + 1], device=log_probs.device)
        steps = slots.expand(log_probs.shape[:2])
        self.rules.constrain(log_probs, steps, max_len, n_forced)
        rows = [own.forced[2 * step : 2 * step + 2] for own in sentences for _ in own.beam]
        for row, forced in enumerate(rows):
            for side, token in enumerate(forced):
                if token != self.rules.pad:
                    score = log_probs[row, side, token].clone()
                    log_probs[row, side] = -math.inf
                    log_probs[row, side, token] = score
        best = log_probs.topk(min(2 * self._width, log_probs.size(-1)))
        found = []
        for scores, tokens in zip(best.values.tolist(), best.indices.tolist()):
            left, right = (list(zip(*side)) for side in zip(scores, tokens))
            # Among the W best pairs are never more than W right tokens beside one left token, and
            # one more may be an end token.
            found.append((left, right[: self._width + 1]))
        return found

    def _select(self, beam: List[Pairs], device: torch.device) -> None:
        """The rows of the network become those of the hypotheses that go on."""
        self.network.select(torch.tensor([pairs.row for pairs in beam], device=device).long())
        for row, pairs in enumerate(beam):
            pairs.row = row

    def _forced(self, prefix: Optional[Tensor], max_len: int, sources: Sources) -> Tensor:
        """What the first slots must hold, int64 ``[B, P]`` with an even P; padding for anything."""
        if prefix is None:
            return sources.lengths.new_empty(sources.n, 0)
        self.order.check_prefix()
        pad, end = self.rules.pad, self.rules.eos
        prefix = prefix[:, :max_len]
        prefix_lengths(prefix, pad)
        forced = prefix.masked_fill(prefix.eq(self.eos), end)
        forced = torch.nn.functional.pad(forced, (0, prefix.size(1) % 2), value=pad)
        # An end token on the left has another one beside it.
        forced[:, 1::2] = torch.where(forced[:, ::2].eq(end), end, forced[:, 1::2])
        return forced

    def _natural(self, pairs: Pairs, device: torch.device) -> Hypothesis:
        """FINALIZE: the sentence in its natural order as fairseq's dict, with EOS at its end."""
        slots = list(zip(pairs.tokens, pairs.scores, range(len(pairs.tokens))))
        content = [slot for slot in slots if slot[0] != self.rules.eos]
        if self.order.name == "bidirectional":
            left, right = ([slot for slot in content if slot[2] % 2 == side] for side in (0, 1))
            content = left + right[::-1]
        elif self.order.name == "r2l":
            content = content[::-1]
        # The score of EOS is that of all end tokens.
        of_ends = sum(score for token, score, _ in slots if token == self.rules.eos)
        tokens = [token for token, _, _ in content] + [self.eos]
        scores = torch.tensor([score for _, score, _ in content] + [of_ends], device=device)
        score = self.rules.sentence_score(scores)
        return hypothesis(torch.tensor(tokens, device=device), score, scores)


def double_top_k(
    beam: Sequence[Tuple[Pairs, List[Tuple[float, int]], List[Tuple[float, int]]]], width: int
) -> List[Pairs]:
    """DOUBLETOPK (section 3.2): the pairs that continue a beam, best first.

    The two tokens of a pair are taken for independent: first the 2W best left tokens are chosen,
    then right tokens given their scores. The paper keeps the 3W best pairs, so that W of them go on.
    If more of them end, fewer than W go on there; here all pairs of the 2W left tokens are kept.

    Args:
        beam: hypotheses, and for each the scores and tokens of its best left and right tokens.
        width: W.
    """
    lefts = [
        (known.total + score, known, score, token, right)
        for known, left, right in beam
        for score, token in left
    ]
    lefts.sort(key=lambda left: left[0], reverse=True)
    pairs = [
        Pairs(
            [*known.tokens, token, right_token],
            [*known.scores, score, right_score],
            total + right_score,
            known.row,
        )
        for total, known, score, token, right in lefts[: 2 * width]
        for right_score, right_token in right
        if total + right_score > -math.inf
    ]
    return sorted(pairs, key=lambda pair: pair.total, reverse=True)


def _is_known(candidate: Pairs, better: Sequence[Pairs], end: int) -> bool:
    """Whether a better pair ends the same sentence: (token, EOD) and (EOD, token) do."""
    content = candidate.content(end)
    return any(
        other.has(end) and other.row == candidate.row and other.content(end) == content
        for other in better
    )


def _common_order(orders: Sequence[TokenOrder]) -> TokenOrder:
    for order in orders[1:]:
        if order != orders[0]:
            raise ValueError(
                f"--path: models of {orders[0]} and of {order} cannot decode together; give models "
                "of the same order"
            )
    return orders[0]
