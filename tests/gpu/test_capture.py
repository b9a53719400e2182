"""The capture itself: what nothing on a CPU can stand in for."""

import pytest
import torch

from fairseq_fastdec.engine.cuda_graphs import graphs
from fairseq_fastdec.engine.cuda_graphs.recorders import CudaRecorder, cuda_recorder
from tests.support import skips
from tests.support.placement import (
    NEEDS_GPU,
    assert_same,
    batch_for,
    decode,
    generator_for,
    model_for,
)

pytestmark = NEEDS_GPU


@pytest.fixture
def recorder():
    return cuda_recorder(torch.device("cuda", torch.cuda.current_device()))


def test_a_graph_repeats_what_it_recorded_on_other_numbers(recorder):
    number = torch.ones(4, device="cuda")
    recording = recorder.record(lambda: number * 2 + 1, None)
    number.fill_(5)
    recording.replay()
    assert recording.output.tolist() == [11] * 4


def test_graphs_share_memory_and_stay_right_in_any_order(recorder):
    number = torch.ones(1 << 20, device="cuda")
    recordings = []
    for factor in range(4):
        beside = recordings[0] if recordings else None
        run = lambda factor=factor: (number * factor + 1) * 2  # noqa: E731
        recordings.append(recorder.record(run, beside))
    assert len({recording.graph.pool() for recording in recordings}) == 1
    for value, factor in enumerate([3, 0, 2, 1, 3, 2]):
        number.fill_(value)
        recordings[factor].replay()
        assert recordings[factor].output.clone()[-1].item() == (value * factor + 1) * 2


def test_after_a_capture_that_fails_everything_goes_on(recorder):
    """On the stream that it was on, and later captures are possible."""
    number = torch.ones(4, device="cuda")
    stream = torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        recorder.record(lambda: number * number.sum().item(), None)
    assert torch.cuda.current_stream() == stream
    assert (number * 3).tolist() == [3] * 4
    recording = recorder.record(lambda: number * 2, None)
    recording.replay()
    assert recording.output.tolist() == [2] * 4


def test_decoding_goes_on_without_graphs_that_fail(monkeypatch, caplog):
    """A step that waits for the GPU cannot be captured."""
    record = CudaRecorder.record

    def waiting(self, run, beside=None):
        return record(self, lambda: run() * torch.ones((), device="cuda").item(), beside)

    monkeypatch.setattr(graphs, "OCCURRENCES", 2)
    expected = decode("greedy", "cuda", cuda_graphs="off")
    monkeypatch.setattr(CudaRecorder, "record", waiting)
    assert_same(decode("greedy", "cuda"), expected, atol=1e-4)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "--cuda-graphs off" in warning.getMessage()


def test_graphs_are_captured_unasked():
    model = model_for("greedy").to("cuda")
    generator = generator_for(model, "greedy")
    for seed in range(4):
        generator.generate([model], batch_for("greedy", "cuda", seed=seed))
    (session,) = generator.session.members
    assert session.graphs.active and session.graphs.n_recorded


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason=skips.TWO_GPUS)
def test_a_model_on_another_gpu_than_the_current_one(monkeypatch):
    monkeypatch.setattr(graphs, "OCCURRENCES", 2)
    expected = decode("greedy", "cuda:0", cuda_graphs="off")
    assert_same(decode("greedy", "cuda:1"), expected, atol=1e-4)
