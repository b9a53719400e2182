"""Environments without torch and fairseq, in which only bundles can be decoded.

``scripts/check_runtime.py`` tries real ones.
"""

import ast
import math
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_runtime
from tests.support.compiled import compiled
from tests.support.demo_translators import bundle_path, translator  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
REMEDY = "pip install 'fastdec-runtime[fairseq]'"
# Hides packages, and runs code.
WITHOUT = """
import sys

hidden, code = sys.argv[1].split(","), sys.argv[2]

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in hidden:
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
sys.argv[:3] = ["program"]
exec(code)
"""
COMMAND = "from fairseq_fastdec.__main__ import run; run()"


def without(hidden, code, *words, text=None):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, hidden, code, *map(str, words)],
        cwd=ROOT, input=text, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("hidden", ["torch,fairseq", "fairseq"])
@pytest.mark.parametrize(
    "words",
    ["train data", "generate data --path x", "prepare-data", "export x --output y", "translate x"],
)
def test_a_command_that_needs_them_says_so(words, hidden):
    done = without(hidden, COMMAND, *words.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"python -m fairseq_fastdec {words.split()[0]}: ")
    assert done.stderr.endswith(f"{REMEDY}\n") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words, part", [("--help", "commands:"), ("translate --help", "--output"), ("--version", ", ")]
)
def test_help(words, part):
    done = without("torch,fairseq", COMMAND, *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert part in done.stdout


@compiled
def test_a_bundle(bundle_path, translator):  # noqa: F811
    done = without("torch,fairseq", COMMAND, "translate", bundle_path, text="Save the file.\n")
    assert (done.returncode, done.stdout) == (0, f"{translator.translate('Save the file.')}\n")


@compiled
def test_scores_with_a_bundle(bundle_path, translator, tmp_path):  # noqa: F811
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("Save the file.\n"), target.write_text("Speichern Sie die Datei.\n")
    words = ["score", bundle_path, "--source", source, "--target", target]
    done = without("torch,fairseq", COMMAND, *words)
    score = translator.score("Save the file.", "Speichern Sie die Datei.") / math.log(2)
    assert (done.returncode, done.stdout) == (0, f"{score:.4f}\n")


LOAD = """
import fairseq_fastdec
for path in (".", ".", "nowhere", ["nowhere"]):
    try:
        fairseq_fastdec.load(path)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        print(error)
"""


def test_from_python():
    done = without("torch,fairseq", LOAD)
    told = f"torch is not installed, without which only bundles can be decoded: {REMEDY}"
    assert done.stdout.splitlines() == [told, told, "nowhere: no such file or directory", told]
    assert without("fairseq", "import fairseq_fastdec, torch; print(torch.ones(1).item())").stdout


def test_the_tests_of_the_service_alone_use_no_fixture_of_checkpoints():
    """``scripts/check_runtime.py`` runs them without the files ``conftest.py``."""
    tests = Path(__file__).parent
    shared = {
        node.name
        for path in (tests / "conftest.py", tests / "serving" / "conftest.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and "fixture" in "".join(map(ast.dump, node.decorator_list))
    }
    assert "bundle" in shared
    for path in sorted((tests / "serving").glob("test_*.py")):
        if path.stem.removeprefix("test_") in check_runtime.OTHER_TESTS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                used = shared.intersection(argument.arg for argument in node.args.args)
                assert not used, f"{path.name}: {node.name}"
