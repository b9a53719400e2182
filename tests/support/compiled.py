"""Compiled code in tests: marks of those that need it or its instructions, and its threads."""

import contextlib
import os

import pytest
import torch

from fairseq_fastdec.engine.kernels.loading import library
from tests.support import skips

compiled = pytest.mark.skipif(library() is None, reason=skips.COMPILER)
with_bf16 = pytest.mark.skipif(library() is None or not library().has_bf16, reason=skips.BF16)
with_int8 = pytest.mark.skipif(library() is None or not library().has_int8, reason=skips.VNNI)
PRECISIONS = [
    "model",
    pytest.param("bf16", marks=with_bf16),
    pytest.param("int8", marks=with_int8),
]


def examples(n):
    """The number of examples of a property test: fewer where sanitizers make each one slow."""
    return max(1, n // 10) if os.environ.get("FASTDEC_SANITIZED") else n


@contextlib.contextmanager
def threads(n):
    """Compiled code uses so many, however little there is to do."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    costs = library().threads.costs
    _ = library().n_threads  # measures them, if it has to
    measured = costs.start, costs.meeting_of_two, costs.meeting_of_most
    try:
        costs.start = costs.meeting_of_two = costs.meeting_of_most = 0
        yield
    finally:
        costs.start, costs.meeting_of_two, costs.meeting_of_most = measured
        torch.set_num_threads(before)
