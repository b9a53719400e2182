"""Where the checks run: on a CPU always, on a GPU if there is one.

On the CPU, steps are recorded on tape instead of being captured, so that the same paths are taken.
"""

import pytest
import torch

from fairseq_fastdec.engine.cuda_graphs import graphs
from fairseq_fastdec.engine.cuda_graphs.recorders import RECORDERS
from tests.support.placement import NEEDS_GPU
from tests.support.tape import TapeRecorder, given_up


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def device(request, monkeypatch, nothing_compiled):
    """Steps are recorded when their shape comes for the second time, and nothing may be wrong."""
    monkeypatch.setattr(graphs, "OCCURRENCES", 2)
    monkeypatch.setattr(graphs.StepGraphs, "_give_up", given_up)
    if request.param == "cpu":
        monkeypatch.setitem(RECORDERS, "auto", lambda device: TapeRecorder())
    return torch.device(request.param)
