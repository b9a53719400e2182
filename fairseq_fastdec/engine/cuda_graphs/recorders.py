"""Recorders: they record a step's operations, to repeat them without launching each of them."""

from typing import Callable, Dict, Optional, Protocol

import torch
from torch import Tensor

# Libraries set themselves up in the first calls; a graph must not contain that.
WARM_UPS = 2


class Recording(Protocol):
    """A function's operations, to be repeated on the same addresses.

    Attributes:
        output: the tensor that the function returned. Every replay writes to it, and so may the
            replay of another recording that shares its memory.
    """

    output: Tensor

    def replay(self) -> None:
        """Repeat the operations."""


class GraphRecorder(Protocol):
    """Makes recordings on one device."""

    def record(self, run: Callable[[], Tensor], beside: Optional[Recording]) -> Recording:
        """Record a function's operations.

        Args:
            run: the function; it is called a few times.
            beside: a recording to share memory with.
        """


class CudaRecording:
    """A CUDA graph."""

    def __init__(self, graph: "torch.cuda.CUDAGraph", output: Tensor) -> None:
        self.graph = graph
        self.output = output

    def replay(self) -> None:
        """Launch it on the current stream."""
        self.graph.replay()


class CudaRecorder:
    """Captures CUDA graphs on one device, as torch's notes on CUDA semantics describe."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # torch's own capture stream would be on the device that was current when torch made it.
        self._stream = torch.cuda.Stream(device)

    def record(
        self, run: Callable[[], Tensor], beside: Optional[CudaRecording] = None
    ) -> CudaRecording:
        """See :meth:`GraphRecorder.record`.

        Raises:
            RuntimeError: if CUDA cannot capture the function.
        """
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            try:
                # Where a capture fails, torch leaves its stream current; this restores the old one.
                with torch.cuda.stream(self._stream):
                    return self._capture(run, beside)
            finally:
                current.wait_stream(self._stream)

    def _capture(self, run: Callable[[], Tensor], beside: Optional[CudaRecording]) -> CudaRecording:
        for _ in range(WARM_UPS):
            run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph,
            pool=None if beside is None else beside.graph.pool(),
            stream=self._stream,
            # Other threads, such as those of data loaders, may go on.
            capture_error_mode="thread_local",
        ):
            output = run()
        return CudaRecording(graph, output)


def cuda_recorder(device: torch.device) -> Optional[GraphRecorder]:
    """A recorder for a GPU; ``None`` for other devices."""
    return CudaRecorder(device) if device.type == "cuda" else None


RecorderForDevice = Callable[[torch.device], Optional[GraphRecorder]]

# The keys are the values of --cuda-graphs.
RECORDERS: Dict[str, RecorderForDevice] = {"auto": cuda_recorder, "off": lambda device: None}
