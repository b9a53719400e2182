"""fairseq's decoder as the truth in fp64, too."""

import pytest
import torch
from fairseq import utils


@pytest.fixture
def true_double(monkeypatch):
    """fairseq computes the cross-attention's softmax in fp32 even in fp64 models; not here."""
    monkeypatch.setattr(
        utils, "softmax", lambda x, dim, onnx_trace=False: torch.softmax(x, dim=dim)
    )
