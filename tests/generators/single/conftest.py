"""What several tests of one-hypothesis methods share."""

import pytest

from fairseq_fastdec.generators.single.compiled_search import CompiledSearch


@pytest.fixture
def without_compiled_search(monkeypatch):
    """Batches are decoded step by step from Python."""
    monkeypatch.setattr(CompiledSearch, "of", lambda *_: None)
