"""Double-token decoding (Imamura and Sumita, WNGT 2020): a beam search over pairs of tokens."""

from functools import cached_property
from typing import List, Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...data.special_tokens import start_tokens
from ...data.token_order import common_order
from ..base import DecodingGenerator
from ..constraints import prefix_lengths
from ..hypothesis import Hypotheses
from ..sources import Sources
from ..statistics import BeamRecord, SentenceRecord
from .compiled_search import CompiledPairSearch, EndedPairs
from .natural_order import first_tokens, unfolded
from .pair_beams import PairBeams


class DoubleTokenGenerator(DecodingGenerator):
    """Algorithm 1: each step extends every hypothesis by a left and a right token.

    As in fairseq, W = K = ``--beam``: a sentence is done when so many of its hypotheses have ended
    or none can go on. All lengths (--max-len-a, --max-len-b, --min-len and the length that scores
    are normalised by) are in tokens of the natural sentence. Where a limit falls between the two
    tokens of a pair, only the right one may be the end.

    A token beside an end belongs to its sentence, whichever side it is on. So the last token of an
    odd length can be found twice: as (token, EOD), which is what training shows, and as (EOD,
    token). The better of the two counts.
    """

    tokens_per_step = 2
    # What follows what is not known while tokens come from both ends.
    honours = frozenset()

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        self.order = common_order([model.decoder.token_order for model in models])
        self.rules = self.rules.of_pairs(self.order, self.dictionary)
        # fairseq's limit: padding is never chosen.
        self._width = min(self.beam, len(self.dictionary) - 1)
        self._free_beams: List[PairBeams] = []

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        max_len = self.rules.max_len(sources.width)
        forced = self._forced(prefix, max_len, sources.content)
        ended = None
        if self._compiled_search is not None:
            request = (sources, self._start(bos)[0], max_len, forced, self.statistics)
            ended = self._compiled_search.decode(*request)
        if ended is None:
            ended = self._ended(sources, bos, max_len, forced)
        hypotheses = self._natural(ended, len(ids), sources.device)
        source_tokens = sources.lengths.tolist()
        records: List[SentenceRecord] = [
            BeamRecord(
                number,
                n_source,
                tokens=own[0]["tokens"].numel(),
                invocations=steps,
                blocks=[],
                expansions=expansions,
            )
            for number, n_source, own, (steps, expansions) in zip(
                ids, source_tokens, hypotheses, ended.costs.tolist()
            )
        ]
        return hypotheses, records

    @cached_property
    def _compiled_search(self) -> Optional[CompiledPairSearch]:
        _, right_bos = start_tokens(self.order, self.dictionary)
        return CompiledPairSearch.of(self.session, self.rules, self._width, right_bos)

    def _ended(self, sources: Sources, bos: int, max_len: int, forced: Tensor) -> EndedPairs:
        """The hypotheses that steps driven from here find."""
        self.session.reset(self.order.folded_length(max_len))
        self.session.add(sources.net_input, forced)
        self.statistics.encoder_invocations += 1
        beams = self._beams_on(forced.device)
        beams.begin(self._start(bos), max_len, forced)
        while beams.n_sentences:
            beams.step()
        # Nothing is under way, so the next batch can have them.
        self._free_beams.append(beams)
        return EndedPairs(*beams.hypotheses(), beams.cost)

    def _beams_on(self, device: torch.device) -> PairBeams:
        """Beams with nothing under way: those of the last batch, unless an error ended it."""
        beams = self._free_beams.pop() if self._free_beams else None
        if beams is not None and beams.device == device:
            return beams
        return PairBeams(self.session, self.rules, self.statistics, self._width, device)

    def _start(self, bos: int) -> Tuple[int, ...]:
        """The pair (BOS, EOS); a ``bos_token`` given by the caller takes the place of BOS."""
        left, right = start_tokens(self.order, self.dictionary)
        return (left if bos == self.eos else bos, right)

    def _forced(self, prefix: Optional[Tensor], max_len: int, source: Tensor) -> Tensor:
        """The tokens that the first slots must hold, ``[B, P]``; padding where any may stand."""
        if prefix is None:
            return source.new_empty(source.size(0), 0)
        self.order.check_prefix()
        pad = self.rules.pad
        prefix = prefix[:, :max_len]
        prefix_lengths(prefix, pad)
        ends = prefix.eq(self.eos)
        forced = torch.nn.functional.pad(
            prefix.masked_fill(ends, self.rules.eos), (0, prefix.size(1) % 2), value=pad
        )
        # An end in a left slot has another beside it.
        ends_left = forced[:, ::2].eq(self.rules.eos)
        forced[:, 1::2] = torch.where(ends_left, self.rules.eos, forced[:, 1::2])
        return forced

    def _natural(self, ended: EndedPairs, n_sentences: int, device: torch.device) -> Hypotheses:
        """fairseq's dicts, in the natural order, best first."""
        sentences, tokens, scores, _ = ended
        own, own_scores, lengths = unfolded(
            tokens, scores, self.order, self.rules.eos, self.dictionary
        )
        sums = torch.from_numpy(scores.sum(axis=1))
        totals = self.rules.normalized(sums, torch.from_numpy(lengths))
        hypotheses: Hypotheses = [[] for _ in range(n_sentences)]
        best_first = (-totals.numpy()).argsort(kind="stable").tolist()
        sentence_of, length_of = sentences.tolist(), lengths.tolist()
        of_device = totals.to(device)
        for index in best_first:
            one = (own[index], of_device[index], own_scores[index], length_of[index])
            hypotheses[sentence_of[index]].append(first_tokens(*one, device))
        return hypotheses
