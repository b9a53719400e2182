"""VAR-STREAM: a batch that is refilled while it is decoded (Yang et al. 2020, Algorithm 1)."""

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ... import progress
from ...generators.options import given
from ...generators.sources import Sources, without_padding
from .beam_batch import BeamBatch
from .beams import Beam
from .variable_beam import VariableBeam


@dataclass
class StreamCapacity:
    """The most that is decoded at once; ``None`` sets no limit.

    Attributes:
        sentences: n, ``--batch-size``.
        source_tokens: EOS included and padding not, ``--max-tokens``.
        rows: candidates, ``--max-beam-rows``. Without a number of sentences they limit what is
            under way. With one they limit each step, and further sentences fill the next steps.
    """

    sentences: Optional[int] = None
    source_tokens: Optional[int] = None
    rows: Optional[int] = None

    def share(self, sentences: float, source_tokens: float, rows: float) -> float:
        """The share of the capacity that some sentences take."""
        most_rows = self.rows if self.sentences is None else None
        used = (sentences, source_tokens, rows)
        limits = (self.sentences, self.source_tokens, most_rows)
        return max((own / limit for own, limit in zip(used, limits) if limit), default=0.0)


class Streaming(VariableBeam):
    """The translations of ``variable_beam`` in another order of work.

    Attributes:
        capacity: how much is decoded at once, whatever the size of a batch: the task makes batches
            as long as ``--stream-buffer``.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        super().set_up(models)
        rows = self.options.max_beam_rows
        if rows is not None and rows < self.rule.width:
            raise ValueError(
                f"--max-beam-rows {rows}: less than one beam, {self.rule.width} rows; raise it or "
                "lower --beam"
            )
        self.capacity = StreamCapacity()

    def search(
        self, batch: BeamBatch, beams: List[Beam], sources: Sources, bos: int
    ) -> Iterator[Beam]:
        done = self._stream(batch, beams, sources, bos)
        # Without limits this is one of fairseq's own batches, which are short.
        return done if self.capacity == StreamCapacity() else progress.shown(done, len(beams))

    def _stream(
        self, batch: BeamBatch, beams: List[Beam], sources: Sources, bos: int
    ) -> Iterator[Beam]:
        epsilon = given(self.options.refill_threshold, 1 / 6)
        capacity = StreamCapacity(
            self.capacity.sentences, self.capacity.source_tokens, self.options.max_beam_rows
        )
        n_tokens = sources.lengths.tolist()
        # Longest first: sentences that begin together are of similar length, and the last ones to
        # end are short. They are taken from the end.
        waiting = sorted(beams, key=lambda beam: n_tokens[beam.number])
        widths_seen, beams_seen = self.rule.width, 1
        n_admitted = 0
        # Line 6
        while waiting or batch.beams:
            # Lines 7 to 11: if no more than epsilon of the capacity is in use, fill it.
            used = [
                len(batch.beams),
                sum(n_tokens[beam.number] for beam in batch.beams),
                sum(len(beam.growing) for beam in batch.beams),
            ]
            due: List[Beam] = []
            is_low = capacity.share(*used) <= epsilon
            while waiting and is_low:
                # A new sentence counts with the mean width so far.
                costs = (1, n_tokens[waiting[-1].number], widths_seen / beams_seen)
                used = [own + cost for own, cost in zip(used, costs)]
                if capacity.share(*used) > 1 and (due or batch.beams):
                    break
                due.append(waiting.pop())
            if due:
                net_input = _some_of(sources, [beam.number for beam in due], self.rules.pad)
                batch.admit(due, net_input, sources.device)
                n_admitted += 1
            # Line 12: select the beams with min l_t.
            focus = self._focus(batch.beams, capacity.rows)
            widths_seen += sum(len(beam.growing) for beam in focus)
            beams_seen += len(focus)
            # Lines 13 to 18
            yield from batch.expand(focus, bos)
        self.statistics.refills += max(0, n_admitted - 1)

    def _focus(self, beams: Sequence[Beam], most_rows: Optional[int]) -> List[Beam]:
        """The beams that a step expands; ``most_rows`` bounds the number of their candidates."""
        if str(given(self.options.stream_policy, "min-length")) == "min-length":
            shortest = min(beam.length for beam in beams)
            wanted = [beam for beam in beams if beam.length == shortest]
        else:  # VAR-STR-FIFO, appendix A.2
            wanted = sorted(beams, key=lambda beam: -beam.length)
        focus, n_rows = [], 0
        for beam in wanted:
            n_rows += len(beam.growing)
            if most_rows is not None and n_rows > most_rows:
                break
            focus.append(beam)
        return focus


def _some_of(sources: Sources, numbers: List[int], pad: int) -> Dict[str, Any]:
    """The encoder's input for some sentences, without padding that only others need."""
    if numbers == list(range(sources.n)):
        return sources.net_input
    index = torch.tensor(numbers, device=sources.device)
    chosen = {
        name: value[index] if isinstance(value, Tensor) else value
        for name, value in sources.net_input.items()
    }
    return without_padding(chosen, pad)
