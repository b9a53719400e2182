"""Marks of tests that need compiled code, or a processor that it has instructions of."""

import pytest

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
