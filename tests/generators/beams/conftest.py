"""What several tests of beam searches share."""

import pytest

from fairseq_fastdec.generators.beams.compiled_search import CompiledBeamSearch


@pytest.fixture
def without_compiled_search(monkeypatch):
    """Beams are decoded step by step from Python."""
    monkeypatch.setattr(CompiledBeamSearch, "of", lambda *_: None)
