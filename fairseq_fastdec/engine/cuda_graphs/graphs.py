"""Steps that are recorded once and replayed: as CUDA graphs, one launch instead of hundreds."""

import logging
from collections import Counter, OrderedDict
from typing import Callable, Hashable, NamedTuple

import torch
from torch import Tensor

from .recorders import RecorderOf, Recording
from .static_step import Decoder, RowState, StaticStep, StepShape

logger = logging.getLogger(__name__)

# A capture costs about as much as a handful of steps: it has to be for a shape that comes again.
OCCURRENCES = 3
MAX_GRAPHS = 64
MAX_COUNTED = 4096

# How far a graph's features may be from those of the same step without it, in units of their norm:
# products of other shapes round differently (and fp32 ones may be TF32), wrong ones are off by 1.
TOLERANCE = {
    torch.float64: 1e-8,
    torch.float32: 5e-3,
    torch.float16: 3e-2,
    torch.bfloat16: 2e-1,
}


class StepGraphs:
    """Takes steps by replaying what it recorded of such steps before, where there is a recorder.

    A recording is for one :class:`StepShape` and for caches that lie where they lay. The step that
    it is made in is taken without it as well, and if the two differ, or the recorder raises, there
    are no recordings any more.

    Attributes:
        active: whether to call :meth:`step`.
    """

    def __init__(self, recorder_of: RecorderOf, max_graphs: int = MAX_GRAPHS) -> None:
        """
        Args:
            max_graphs: those that were not replayed for the longest time are forgotten beyond it.
        """
        self.active = False
        self._recorder_of = recorder_of
        self._max_graphs = max_graphs
        self._failed = False
        self._forget()

    def prepare(self, decoder: Decoder) -> None:
        """Go on with another decoder, or with one whose tensors have changed their places."""
        self._decoder = decoder
        self._recorder = None if self._failed else self._recorder_of(decoder.device)
        self.active = self._recorder is not None
        self._forget()

    def step(self, state: RowState, tokens: Tensor, eager: Callable[[Tensor], Tensor]) -> Tensor:
        """
        Args:
            tokens: int64 ``[R, T]``, for the rows that are not paused.
            eager: the same step without a graph.

        Returns:
            features ``[R, T, C]``
        """
        shape = StepShape.of(state, tokens.size(1), self._decoder.tokens_per_step)
        if not shape.is_small:
            return eager(tokens)
        key = self._place(shape)
        if key in self._steps:
            self._steps.move_to_end(key)
            return self._steps[key].features(state, tokens)
        if self._is_seldom(key):
            return eager(tokens)
        return self._record(key, shape, state, tokens, eager)

    def _place(self, shape: StepShape) -> Hashable:
        """Make room in the caches; the shape, and where they then lie."""
        rows, sources = self._decoder.rows, self._decoder.sources
        rows.reserve(shape.n_rows, shape.n_keys)
        sources.reserve(shape.n_sources, shape.n_source_keys)
        return shape, rows.place, sources.place

    def _is_seldom(self, key: Hashable) -> bool:
        if len(self._occurrences) > MAX_COUNTED:
            self._occurrences.clear()
        self._occurrences[key] += 1
        return self._occurrences[key] < OCCURRENCES

    def _record(
        self,
        key: Hashable,
        shape: StepShape,
        state: RowState,
        tokens: Tensor,
        eager: Callable[[Tensor], Tensor],
    ) -> Tensor:
        problem = None
        try:
            step = self._recorded(shape, state, tokens)
            features = step.features(state, tokens)
        except Exception as error:  # whatever is wrong with graphs, decoding can go on
            problem = f"{type(error).__name__}: {error}"
        # Last, so that it is what it writes to the cache that stays there.
        expected = eager(tokens)
        if problem is None and not _close(features, expected, TOLERANCE[self._decoder.rounding]):
            problem = "a graph gave other numbers than the step that it was captured from"
        if problem is None:
            self._keep(key, step)
        else:
            self._give_up(problem)
        return expected

    def _recorded(self, shape: StepShape, state: RowState, tokens: Tensor) -> "_RecordedStep":
        static = StaticStep(self._decoder, shape)
        static.load(state, tokens)
        beside = next(iter(self._steps.values()), None)
        memory = None if beside is None else beside.recording
        return _RecordedStep(static, self._recorder.record(static.run, memory))

    def _keep(self, key: Hashable, step: "_RecordedStep") -> None:
        self._steps[key] = step
        del self._occurrences[key]
        if len(self._steps) > self._max_graphs:
            self._steps.popitem(last=False)

    def _give_up(self, problem: str) -> None:
        self._failed = True
        self.active = False
        self._forget()
        logger.warning("CUDA graphs: %s; going on without them, as with --cuda-graphs off", problem)

    def _forget(self) -> None:
        self._steps: "OrderedDict[Hashable, _RecordedStep]" = OrderedDict()
        self._occurrences: "Counter[Hashable]" = Counter()


class _RecordedStep(NamedTuple):
    static: StaticStep
    recording: Recording

    def features(self, state: RowState, tokens: Tensor) -> Tensor:
        """Replay for these rows: ``[R, T, C]``, which no other replay touches."""
        self.static.load(state, tokens)
        self.recording.replay()
        n_rows, n_new = tokens.shape
        return self.recording.output[state.first : state.first + n_rows, :n_new].clone()


def _close(features: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether every position's features ``[..., C]`` are as they should be; NaN is not."""
    difference = (features.double() - expected.double()).norm(dim=-1)
    return bool((difference <= tolerance * expected.double().norm(dim=-1)).all())
