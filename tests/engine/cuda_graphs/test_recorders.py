"""The order of the calls that capture a graph; ``tests/gpu`` makes them for real."""

import contextlib

import pytest
import torch

from fairseq_fastdec.engine.cuda_graphs.recorders import RECORDERS, WARM_UPS


class Stream:
    def __init__(self, log, name):
        self._log, self._name = log, name

    def wait_stream(self, other):
        self._log.append(f"{self._name} waits for {other._name}")


class Graph:
    def __init__(self, log):
        self._log = log

    def pool(self):
        return "memory"

    def replay(self):
        self._log.append("replay")


@pytest.fixture
def log(monkeypatch):
    """What is asked of ``torch.cuda``, in order."""
    log = []
    current = Stream(log, "current")

    @contextlib.contextmanager
    def within(what):
        log.append(f"in {what}")
        yield
        log.append(f"out of {what}")

    def capture(graph, pool, stream, capture_error_mode):
        return within(f"capture on {stream._name} in {pool}")

    for name, value in dict(
        Stream=lambda device: Stream(log, "side"),
        CUDAGraph=lambda: Graph(log),
        current_stream=lambda: current,
        device=lambda device: within(str(device)),
        stream=lambda stream: within(stream._name),
        graph=capture,
    ).items():
        monkeypatch.setattr(torch.cuda, name, value)
    return log


def test_a_capture_after_warming_up(log):
    recorder = RECORDERS["auto"](torch.device("cuda:1"))

    def run():
        log.append("run")
        return torch.ones(2)

    first = recorder.record(run, None)
    assert log == [
        "in cuda:1",
        "side waits for current",
        "in side",
        *["run"] * WARM_UPS,
        "in capture on side in None",
        "run",
        "out of capture on side in None",
        "out of side",
        "current waits for side",
        "out of cuda:1",
    ]
    log.clear()
    second = recorder.record(run, first)
    assert "in capture on side in memory" in log
    log.clear()
    second.replay()
    assert log == ["replay"] and second.output.tolist() == [1, 1]


def test_whatever_was_begun_is_waited_for(log):
    recorder = RECORDERS["auto"](torch.device("cuda"))
    with pytest.raises(ZeroDivisionError):
        recorder.record(lambda: 1 / 0, None)
    assert log[-1] == "current waits for side"


def test_none_when_off_or_on_a_cpu():
    assert RECORDERS["off"](torch.device("cuda")) is None
    assert RECORDERS["auto"](torch.device("cpu")) is None
