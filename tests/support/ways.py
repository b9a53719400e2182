"""The two ways of decoding: compiled code and torch."""

from contextlib import contextmanager

import pytest

from fairseq_fastdec.engine.kernels import loading
from tests.support.compiled import compiled

WAYS = pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "torch"])


@contextmanager
def decoded_by(way):
    """In this context, new generators decode in the given way."""
    with pytest.MonkeyPatch.context() as patch:
        if way == "torch":
            patch.setattr(loading, "library", lambda: None)
        yield
