"""The ways in which the best tokens are chosen: by compiled code, and by torch."""

from contextlib import contextmanager

import pytest

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.generators import top_tokens
from tests.support.compiled import compiled

PATCHES = {"compiled": {}, "columns": dict(SMALLEST_SCAN=1, FEW_SCORES=0), "top-k": {}}
WAYS = pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "columns"])


@contextmanager
def chosen_by(way):
    """One of the ways in which tokens are chosen."""
    with pytest.MonkeyPatch.context() as patch:
        if way != "compiled":
            patch.setattr(loading, "library", lambda: None)
        for name, value in PATCHES[way].items():
            patch.setattr(top_tokens, name, value)
        yield
