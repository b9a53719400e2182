"""Steps that are recorded once and replayed: a CUDA graph is one launch instead of hundreds."""

import logging
from collections import Counter, OrderedDict
from typing import Callable, Hashable, NamedTuple, Optional

import torch
from torch import Tensor

from .recorders import GraphRecorder, RecorderForDevice, Recording
from .static_step import RowState, StaticDecoder, StaticStep, StepShape

logger = logging.getLogger(__name__)

# A step is recorded once its shape has occurred so often. A capture costs about as much as a few
# steps, so it has to be for a shape that comes again.
OCCURRENCES = 3
MAX_GRAPHS = 64
MAX_COUNTED = 4096

# A graph's features may differ by so much from those of the same step without a graph, in units of
# their norm. Products of other shapes round differently (and fp32 ones may be TF32); the features
# of a graph that is wrong differ by about 1.
TOLERANCE = {
    torch.float64: 1e-8,
    torch.float32: 5e-3,
    torch.float16: 3e-2,
    torch.bfloat16: 2e-1,
}


class StepGraphs:
    """Replays steps that it recorded before, where there is a recorder.

    A recording is for one :class:`StepShape`, and for caches that have not moved since. The step
    that is recorded is also taken without a recording. If the two differ, or if the recorder
    raises, there are no recordings any more.

    Attributes:
        active: whether to call :meth:`step`; never before :meth:`prepare`.
        max_graphs: beyond so many recordings, the one that was not replayed for the longest time is
            forgotten.
    """

    def __init__(
        self, recorder_for_device: RecorderForDevice, max_graphs: int = MAX_GRAPHS
    ) -> None:
        """
        Args:
            recorder_for_device: makes a recorder for a device, or returns ``None``.
        """
        self.active = False
        self.max_graphs = max_graphs
        self._recorder_for_device = recorder_for_device
        self._decoder: Optional[StaticDecoder] = None
        self._recorder: Optional[GraphRecorder] = None
        self._failed = False
        self._forget()

    @property
    def n_recorded(self) -> int:
        """The number of recordings."""
        return len(self._steps)

    def prepare(self, decoder: StaticDecoder) -> None:
        """Begin anew with another decoder, or with one whose tensors have moved."""
        self._decoder = decoder
        self._recorder = None if self._failed else self._recorder_for_device(decoder.device)
        self.active = self._recorder is not None
        self._forget()

    def step(self, state: RowState, tokens: Tensor, eager: Callable[[], Tensor]) -> Tensor:
        """Take a step, by a recording if there is one of its shape.

        Args:
            tokens: int64 ``[R, T]``, for the rows that are not paused.
            eager: the same step without a graph.

        Returns:
            features ``[R, T, C]``
        """
        shape = StepShape.fitting(state, tokens.size(1), self._decoder.tokens_per_step)
        if not shape.is_small:
            return eager()
        key = self._reserve(shape)
        if key in self._steps:
            self._steps.move_to_end(key)
            return self._steps[key].features(state, tokens)
        if self._is_rare(key):
            return eager()
        return self._record(key, shape, state, tokens, eager)

    def _reserve(self, shape: StepShape) -> Hashable:
        """Make room in the caches.

        Returns:
            what a recording is for: the shape, and where the caches now lie.
        """
        rows, sources = self._decoder.row_cache, self._decoder.source_cache
        rows.reserve(shape.n_rows, shape.n_keys)
        sources.reserve(shape.n_sources, shape.n_source_keys)
        return shape, rows.place, sources.place

    def _is_rare(self, key: Hashable) -> bool:
        """Count one more step of the key; whether there were too few for a recording."""
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
        eager: Callable[[], Tensor],
    ) -> Tensor:
        """Take a step that is recorded at the same time; see :meth:`step`."""
        problem = None
        try:
            step = self._capture(shape, state, tokens)
            features = step.features(state, tokens)
        except Exception as error:  # decoding can go on, whatever is wrong with graphs
            problem = f"{type(error).__name__}: {error}"
        # The step without a graph comes last, so that the cache keeps what this step writes.
        expected = eager()
        if problem is None and not _close(features, expected, TOLERANCE[self._decoder.rounding]):
            problem = "a graph gave other numbers than the step that it was captured from"
        if problem is None:
            self._keep(key, step)
        else:
            self._give_up(problem)
        return expected

    def _capture(self, shape: StepShape, state: RowState, tokens: Tensor) -> "_RecordedStep":
        static = StaticStep(self._decoder, shape)
        static.load(state, tokens)
        beside = next(iter(self._steps.values()), None)
        memory = None if beside is None else beside.recording
        return _RecordedStep(static, self._recorder.record(static.run, memory))

    def _keep(self, key: Hashable, step: "_RecordedStep") -> None:
        self._steps[key] = step
        del self._occurrences[key]
        if len(self._steps) > self.max_graphs:
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
    """A step's buffers, and the operations on them."""

    static: StaticStep
    recording: Recording

    def features(self, state: RowState, tokens: Tensor) -> Tensor:
        """Replay for these rows: ``[R, T, C]``, which no other replay touches."""
        self.static.load(state, tokens)
        self.recording.replay()
        n_rows, n_new = tokens.shape
        return self.recording.output[state.first : state.first + n_rows, :n_new].clone()


def _close(features: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether features ``[..., C]`` are near the expected ones at every position; NaN never is."""
    difference = (features.double() - expected.double()).norm(dim=-1)
    return bool((difference <= tolerance * expected.double().norm(dim=-1)).all())
