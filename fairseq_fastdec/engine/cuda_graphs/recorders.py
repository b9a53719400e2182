"""What records a step's operations, to repeat them without Python and without launching each."""

from typing import Callable, Dict, Optional, Protocol

import torch
from torch import Tensor

# Libraries set themselves up in the first calls, which must not be part of a graph.
WARM_UPS = 2


class Recording(Protocol):
    """A function's operations, to be repeated on the same addresses.

    Attributes:
        output: where they leave what the function returned. It holds until another recording that
            shares its memory is replayed.
    """

    output: Tensor

    def replay(self) -> None:
        """Do them again."""


class Recorder(Protocol):
    """What makes recordings."""

    def record(self, run: Callable[[], Tensor], beside: Optional[Recording]) -> Recording:
        """
        Args:
            run: called a few times.
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
        # Not torch's own: it has a single one, on the device that was current when it was made.
        self._stream = torch.cuda.Stream(device)

    def record(
        self, run: Callable[[], Tensor], beside: Optional[CudaRecording] = None
    ) -> CudaRecording:
        """
        Raises:
            RuntimeError: what CUDA says to a function that cannot be captured.
        """
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            try:
                # Around the capture as well: where that fails, torch leaves its stream behind.
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
            # Other threads, of data loaders say, may go on.
            capture_error_mode="thread_local",
        ):
            output = run()
        return CudaRecording(graph, output)


def cuda_recorder(device: torch.device) -> Optional[Recorder]:
    """A recorder for a GPU; ``None`` for other devices."""
    return CudaRecorder(device) if device.type == "cuda" else None


RecorderOf = Callable[[torch.device], Optional[Recorder]]

# By their names in --cuda-graphs.
RECORDERS: Dict[str, RecorderOf] = {"auto": cuda_recorder, "off": lambda device: None}
