"""Streaming beam search (Yang, Yao, DeNero and Klein, EMNLP 2020)."""

from typing import Any, List, Optional, Sequence

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from .beam import VariableBeamGenerator
from .options import DecodingOptions, given
from .schedule import Capacity, Schedule, Stream


class StreamingGenerator(VariableBeamGenerator):
    """``variable_beam`` in another order of work: the batch is refilled while it is decoded.

    :attr:`capacity` says how much is decoded at once, whatever the size of the batches that
    :meth:`generate` is given: the task makes them as long as --stream-buffer.
    """

    name = "streaming"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        args: Any,
        options: DecodingOptions,
        symbols_to_strip_from_output: Sequence[int] = (),
        capacity: Optional[Capacity] = None,
    ) -> None:
        super().__init__(models, dictionary, args, options, symbols_to_strip_from_output)
        self.capacity = capacity or Capacity()
        if options.max_beam_rows is not None and options.max_beam_rows < self.heuristics.width:
            raise ValueError(
                f"--max-beam-rows {options.max_beam_rows}: less than one beam, "
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
