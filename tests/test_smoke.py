"""The smoke test names tests that there are."""

from pathlib import Path

import pytest

from tests.support import smoke

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("beginning", smoke.TESTS)
def test_every_beginning_is_of_a_test(beginning):
    path, _, name = beginning.partition("::")
    assert (ROOT / path).exists()
    if name:
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8")
