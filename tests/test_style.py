"""ruff, of the version that the dev extra pins, and mypy find nothing to change."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import skips

ROOT = Path(__file__).resolve().parents[1]


def ruff(*arguments):
    """What ruff says of the repository, and whether it is content."""
    skips.needs("ruff")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    return done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [["check"], ["format", "--diff"]], ids=" ".join)
def test_ruff_is_content(command):
    is_content, told = ruff(*command, "--no-cache", ".")
    assert is_content, told


def test_types(tmp_path):
    skips.needs("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_is_of_the_pinned_version():
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (pinned,) = re.findall(r'"ruff==([\d.]+)"', metadata)
    _, told = ruff("--version")
    assert told.split() == ["ruff", pinned], f"ruff {pinned}: pip install -e '.[dev]'"
