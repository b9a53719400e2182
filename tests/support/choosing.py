"""The ways in which the best tokens are chosen: by compiled code, and by torch."""

from contextlib import contextmanager

import pytest

from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.generators import top_tokens
from tests.support import skips

compiled = pytest.mark.skipif(library() is None, reason=skips.COMPILER)
BY_TORCH = dict(library=lambda: None)
PATCHES = {
    "compiled": {},
    "columns": dict(BY_TORCH, SMALLEST_SCAN=1, FEW_SCORES=0),
    "top-k": BY_TORCH,
}
WAYS = pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "columns"])


@contextmanager
def chosen_by(way):
    """One of the ways in which tokens are chosen."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PATCHES[way].items():
            patch.setattr(top_tokens, name, value)
        yield
