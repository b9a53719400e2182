"""The examples are a package: they share code by its name, and their scripts run from anywhere."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from examples.common import commands

EXAMPLES = commands.ROOT / "examples"
FILES = sorted(EXAMPLES.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_no_example_changes_where_modules_are_looked_for(path):
    assert "sys.path" not in path.read_text(encoding="utf-8")
    assert (path.parent / "__init__.py").exists()


@pytest.mark.parametrize(
    "path", sorted((EXAMPLES / "common").glob("*.py")), ids=lambda path: path.stem
)
def test_what_examples_share_needs_none_of_them(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level < 2 and not (node.module or "").startswith("examples.")


def test_a_script_runs_by_its_path_from_any_folder(tmp_path):
    """The README's first command does that, after an editable installation."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "en_de" / "demo.py", "--help"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.split()[1]).name == "demo.py"
