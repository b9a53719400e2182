"""``--decoding auto``: greedy's output by the method with the least time per token so far."""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any, Optional

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from .generator import DecodingGenerator
from .hypothesis import Hypotheses
from .options import DecodingOptions
from .registry import generator_class
from .sources import Sources
from .statistics import SentenceRecord

# The options of ``auto`` that are passed to each method.
OPTIONS_OF_METHODS: dict[str, tuple[str, ...]] = {
    "greedy": (),
    "lookahead": ("ngram_order", "ngram_pool"),
    "blockwise": (
        "decoding_block_size",
        "proposal_types",
        "proposal_precision",
        "proposal_confidence",
    ),
}
# One measurement of a method takes batches with this many tokens in total. With smaller batches,
# the first one is not counted, since its weights are not in the processor's caches.
ENOUGH_TOKENS = 256
N_REMEMBERED = 9
# Batches between the first and the second trial of a method; the number doubles each time.
FIRST_REST = 128


class MethodTimes:
    """The time per token of each method, in batches of similar size."""

    def __init__(self, n_methods: int) -> None:
        self._times: list[deque[float]] = [deque(maxlen=N_REMEMBERED) for _ in range(n_methods)]
        self._rests = [0] * n_methods
        self._next_trials = [0] * n_methods
        self._n_batches = 0
        self._on_trial: Optional[int] = None
        self._measured, self._is_cold = -1, True
        self._seconds, self._n_tokens = 0.0, 0

    def choose(self) -> int:
        """The index of the method that decodes the next batch."""
        self._n_batches += 1
        due = [n for n, first in enumerate(self._next_trials) if first <= self._n_batches]
        if due and self._on_trial is None:
            self._on_trial = due[0]
            self._rests[due[0]] = 2 * self._rests[due[0]] or FIRST_REST
            self._next_trials[due[0]] = self._n_batches + self._rests[due[0]]
        number = self.fastest if self._on_trial is None else self._on_trial
        if number != self._measured:
            self._measured, self._is_cold = number, True
            self._seconds, self._n_tokens = 0.0, 0
        return number

    def learn(self, seconds: float, n_tokens: int) -> None:
        """Record the time of the batch that the chosen method has decoded."""
        if not self._is_cold or n_tokens >= ENOUGH_TOKENS:
            self._seconds, self._n_tokens = self._seconds + seconds, self._n_tokens + n_tokens
        self._is_cold = False
        if self._n_tokens >= ENOUGH_TOKENS:
            self._times[self._measured].append(self._seconds / self._n_tokens)
            self._seconds, self._n_tokens = 0.0, 0
            self._on_trial = None

    @property
    def fastest(self) -> int:
        """The index of the method with the least median time per token."""
        times = self.medians()
        return times.index(min(times))

    def medians(self) -> list[float]:
        """The median seconds per token of each method; infinite before its first measurement."""
        return [median(times) if times else math.inf for times in self._times]


class Auto(DecodingGenerator):
    """Chooses for each batch among ``greedy``, ``lookahead`` and, with heads, ``blockwise``.

    Their outputs are the same. Times are kept separately for batches of different size.
    """

    keeps_one_hypothesis = True

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        names = ["greedy", "lookahead"]
        if min(self.network.block_sizes) and self.network.heads_agree:
            names.append("blockwise")
        elif self.options.decoding_block_size:
            # Raises the error that names what is missing.
            generator_class("blockwise")(*self._arguments(models, "blockwise"))
        self.methods: dict[str, DecodingGenerator] = {
            name: generator_class(name)(*self._arguments(models, name)) for name in names
        }
        for method in self.methods.values():
            method.statistics = self.statistics
        self._times: defaultdict[int, MethodTimes] = defaultdict(lambda: MethodTimes(len(names)))

    def _arguments(self, models: Sequence[FairseqEncoderDecoderModel], name: str) -> list[Any]:
        unknown = {
            option
            for options in OPTIONS_OF_METHODS.values()
            for option in options
            if option not in OPTIONS_OF_METHODS[name]
        }
        defaults = {option: getattr(DecodingOptions(), option) for option in unknown}
        options = replace(self.options, decoding=name, decoding_stats=None, **defaults)
        strip = self.symbols_to_strip_from_output - {self.eos}
        sources = self.source_dictionary
        return [models, self.dictionary, self.args, options, tuple(strip), sources, self.eos]

    def prepare(self) -> None:
        for method in self.methods.values():
            method.prepare()

    def choose_search(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        return None  # each method chooses its own search

    def translate(
        self, sources: Sources, ids: list[int], bos: int, prefix: Optional[Tensor]
    ) -> tuple[Hypotheses, list[SentenceRecord]]:
        if not self._times:
            # Not part of a trial. Worker processes that are forked later share the weights.
            self.prepare()
        times = self._times[sources.n.bit_length()]
        number = times.choose()
        before = perf_counter()
        found = list(self.methods.values())[number].run(sources, ids, bos, prefix)
        seconds = perf_counter() - before
        times.learn(seconds, sum(record.tokens for record in found[1]))
        return found
