"""Streaming beam search (Yang, Yao, DeNero and Klein, EMNLP 2020)."""

from typing import Iterator, List, Sequence

from fairseq.models import FairseqEncoderDecoderModel

from ... import progress
from ..options import given
from .generator import VariableBeamGenerator
from .request import Result
from .schedule import Capacity, Schedule, Stream


class StreamingGenerator(VariableBeamGenerator):
    """``variable_beam`` in another order of work: the batch is refilled while it is decoded.

    :attr:`capacity` says how much is decoded at once, whatever the size of the batches that
    :meth:`generate` is given: the task makes them as long as --stream-buffer.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        super().set_up(models)
        self.capacity = Capacity()
        rows = self.options.max_beam_rows
        if rows is not None and rows < self.heuristics.width:
            raise ValueError(
                f"--max-beam-rows {rows}: less than one beam, "
                f"{self.heuristics.width} rows; raise it or lower --beam"
            )

    def schedule(self, source_tokens: List[int]) -> Schedule:
        return Stream(
            source_tokens,
            Capacity(
                self.capacity.sentences, self.capacity.source_tokens, self.options.max_beam_rows
            ),
            given(self.options.refill_threshold, 1 / 6),
            str(given(self.options.stream_policy, "min-length")),
            self.heuristics.width,
        )

    def shown(self, results: Iterator[Result], n_sentences: int) -> Iterator[Result]:
        # Without limits a batch is one of fairseq's own, short ones.
        if self.capacity == Capacity():
            return results
        return progress.shown(results, n_sentences)
