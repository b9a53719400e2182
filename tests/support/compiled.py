"""A mark for tests that need compiled code, and settings of its threads."""

import contextlib
import os

import pytest
import torch

from fairseq_fastdec.engine.kernels import loading
from tests.support import skips

compiled = pytest.mark.skipif(loading.library() is None, reason=skips.COMPILER)
PRECISIONS = ["model", "bf16", "int8"]
INSTRUCTION_SETS = loading.library().instruction_sets() if loading.library() else []


def examples(n):
    """The number of examples of a property test, which is lower under slow sanitizers."""
    return max(1, n // 25) if os.environ.get("FASTDEC_SANITIZED") else n


@contextlib.contextmanager
def threads(n):
    """Make compiled code use n threads even for little work."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    loading.library().measure_costs(1)
    loading._n_measured = n
    try:
        yield
    finally:
        loading._n_measured = 1
        torch.set_num_threads(before)


@contextlib.contextmanager
def using(instruction_set):
    """Run the kernels of an instruction set."""
    library = loading.library()
    before = library.instruction_set_in_use()
    library.use_instruction_set(instruction_set)
    try:
        yield
    finally:
        library.use_instruction_set(before)
