"""VAR-STREAM: a batch that is refilled while it is decoded (Yang et al. 2020, Algorithm 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...engine.searches import Result
from ...fairseq_patches import progress
from ..option_rules import given, option
from ..request import Request, Sources, without_padding
from .beam_batch import BeamBatch
from .beams import Beam
from .variable_beam import VariableBeam

STREAM_POLICY_CHOICES = ChoiceEnum(["min-length", "fifo"])


@dataclass
class StreamingOptions:
    """The options for refilling a stream and choosing which beams to expand."""

    refill_threshold: Optional[float] = option(
        None,
        "streaming: refill when at most this share of the capacity (--batch-size, --max-tokens, "
        "--max-beam-rows) is in use (default: 1/6)",
        methods=("streaming",),
        at_least=0,
        less_than=1,
    )
    stream_policy: Optional[STREAM_POLICY_CHOICES] = option(
        None,
        "streaming: min-length = expand only the sentences with the fewest tokens; fifo = expand "
        "all that fit, those with the most tokens first (default: min-length)",
        methods=("streaming",),
    )
    stream_buffer: Optional[int] = option(
        None,
        "streaming: read this many sentences at a time; --batch-size and --max-tokens then limit "
        "how many of them are decoded at once (default: 4096)",
        methods=("streaming",),
        at_least=1,
    )
    max_beam_rows: Optional[int] = option(
        None,
        "streaming: expand at most this many candidates per step; without --batch-size, this also "
        "limits the number of sentences in progress",
        methods=("streaming",),
        at_least=1,
    )


@dataclass
class Capacity:
    """Limits of what is decoded at once; ``None`` for no limit.

    Attributes:
        sentences: n, ``--batch-size``.
        source_tokens: with EOS and without padding, ``--max-tokens``.
        rows: candidates, ``--max-beam-rows``. Without a limit of sentences, this limits the
            candidates in progress; with one, only the candidates of each step.
    """

    sentences: Optional[int] = None
    source_tokens: Optional[int] = None
    rows: Optional[int] = None

    def share(self, sentences: float, source_tokens: float, rows: float) -> float:
        """The share of the capacity that some sentences use."""
        most_rows = self.rows if self.sentences is None else None
        used = (sentences, source_tokens, rows)
        limits = (self.sentences, self.source_tokens, most_rows)
        return max((own / limit for own, limit in zip(used, limits) if limit), default=0.0)


class RefillSchedule:
    """Decides which waiting sentences begin, and which beams are expanded next.

    Sentences begin longest first, so that those that begin together have similar lengths and the
    last ones are short.
    """

    def __init__(
        self,
        beams: Sequence[Beam],
        n_tokens: list[int],
        capacity: Capacity,
        epsilon: float,
        width: int,
    ) -> None:
        """
        Args:
            beams: of the waiting sentences; n_tokens: the number of source tokens of each sentence.
            epsilon: the refill threshold, a share of the capacity.
            width: k, the expected width of the first beams.
        """
        self._n_tokens, self._capacity, self._epsilon = n_tokens, capacity, epsilon
        # The last element is the next to begin.
        self.waiting = sorted(beams, key=lambda beam: n_tokens[beam.number])
        self._rows_seen, self._beams_seen = width, 1

    def due(self, beams: Sequence[Beam]) -> list[Beam]:
        """The sentences that begin now; none if more than epsilon of the capacity is in use.

        Args:
            beams: those in progress.
        """
        used: list[float] = [
            len(beams),
            sum(self._n_tokens[beam.number] for beam in beams),
            sum(len(beam.growing) for beam in beams),
        ]
        if self._capacity.share(*used) > self._epsilon:
            return []
        # The width of a new beam is not known yet; use the mean of the expanded beams.
        expected_width = self._rows_seen / self._beams_seen
        due: list[Beam] = []
        while self.waiting:
            costs = (1, self._n_tokens[self.waiting[-1].number], expected_width)
            used = [own + cost for own, cost in zip(used, costs)]
            # If no sentence is in progress, one begins even if it exceeds the capacity.
            if self._capacity.share(*used) > 1 and (due or beams):
                break
            due.append(self.waiting.pop())
        return due

    def focus(self, beams: Sequence[Beam], policy: str) -> list[Beam]:
        """Choose which of the beams in progress the next step expands.

        Args:
            policy: ``min-length`` or ``fifo``.
        """
        if policy == "min-length":
            shortest = min(beam.length for beam in beams)
            wanted = [beam for beam in beams if beam.length == shortest]
        else:
            # VAR-STR-FIFO, appendix A.2: longest first, up to the capacity.
            wanted = sorted(beams, key=lambda beam: -beam.length)
        focus, n_rows = [], 0
        for beam in wanted:
            n_rows += len(beam.growing)
            if self._capacity.rows is not None and n_rows > self._capacity.rows:
                break
            focus.append(beam)
        self._rows_seen += sum(len(beam.growing) for beam in focus)
        self._beams_seen += len(focus)
        return focus


class Streaming(VariableBeam):
    """The same translations as ``variable_beam``, computed in another order.

    Attributes:
        capacity: how much is decoded at once, independent of the batch size: the task makes batches
            of ``--stream-buffer`` sentences.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        super().set_up(models)
        rows = self.options.max_beam_rows
        if rows is not None and rows < self.rule.beam:
            raise ValueError(
                f"--max-beam-rows {rows}: less than the {self.rule.beam} rows of one beam; raise "
                "it or lower --beam"
            )
        self._epsilon = given(self.options.refill_threshold, 1 / 6)
        self._policy = str(given(self.options.stream_policy, "min-length"))
        self.capacity = Capacity()

    def translate_compiled(self, request: Request) -> Iterator[Result]:
        schedule = {
            "batch_size": self.capacity.sentences or 0,
            "max_tokens": self.capacity.source_tokens or 0,
            "max_beam_rows": self.options.max_beam_rows or 0,
            "refill_threshold": self._epsilon,
            "stream_policy": self._policy,
        }
        longest_first = request.sources.lengths.argsort(stable=True).flip(0).numpy()
        given = (request, self.limits(request), self.statistics, schedule, longest_first)
        assert self.search is not None
        return self._shown(self.search.results(*given), request.n)

    def decode(self, batch: BeamBatch, beams: list[Beam], request: Request) -> Iterator[Beam]:
        return self._shown(self._stream(batch, beams, request), len(beams))

    def _shown(self, done: Iterator[Any], n_sentences: int) -> Iterator[Any]:
        # Without limits this is an ordinary, short batch of fairseq.
        return done if self.capacity == Capacity() else progress.shown(done, n_sentences)

    def _stream(self, batch: BeamBatch, beams: list[Beam], request: Request) -> Iterator[Beam]:
        sources = request.sources
        n_before = self.statistics.encoder_invocations
        capacity = replace(self.capacity, rows=self.options.max_beam_rows)
        n_tokens = sources.lengths.tolist()
        stream = RefillSchedule(beams, n_tokens, capacity, self._epsilon, self.rule.beam)
        # Line 6: while inputs are waiting or beams are in progress
        while stream.waiting or batch.beams:
            # Lines 7 to 11: if |B| <= epsilon n, refill the batch
            due = stream.due(batch.beams)
            if due:
                net_input = _some_of(sources, [beam.number for beam in due], self.rules.pad)
                batch.admit(due, net_input, sources.device)
            # Line 12: select the beams with min l_t
            focus = stream.focus(batch.beams, self._policy)
            # Lines 13 to 18: expand them, and remove terminated beams
            yield from batch.expand(focus, request.bos)
        self.statistics.refills += self.statistics.encoder_invocations - n_before - 1


def _some_of(sources: Sources, numbers: list[int], pad: int) -> dict[str, Any]:
    """The encoder's input for some sentences, without padding that they do not need."""
    if numbers == list(range(sources.n)):
        return sources.net_input
    index = torch.tensor(numbers, device=sources.device)
    chosen = {
        name: value[index] if isinstance(value, Tensor) else value
        for name, value in sources.net_input.items()
    }
    return without_padding(chosen, pad)
