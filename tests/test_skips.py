"""A test that is skipped says what to do so that it is not."""

import ast
import re
from pathlib import Path

import pytest

from tests.support import skips

TESTS = Path(__file__).resolve().parent
CALLS = re.compile(r"\.(skip|skipif|importorskip)\b")


def reasons():
    """The place and the source text of all reasons for skips."""
    for path in sorted(TESTS.rglob("*.py")):
        if path.name == "skips.py":
            continue
        text = path.read_text(encoding="utf-8")
        # To parse all files takes a second in each process.
        for node in ast.walk(ast.parse(text)) if CALLS.search(text) else ():
            name = getattr(getattr(node, "func", None), "attr", None)
            if name in ("skip", "skipif", "importorskip"):
                named = [word.value for word in node.keywords if word.arg == "reason"]
                only = node.args[:1] if name == "skip" else []
                reason = ast.unparse([*named, *only, ast.Constant("")][0])
                yield f"{path.relative_to(TESTS)}:{node.lineno}", reason


@pytest.mark.parametrize("place, reason", list(reasons()))
def test_skips_name_a_remedy(place, reason):
    known = re.findall(r"\bskips\.(\w+)", reason)
    assert known and all(hasattr(skips, name) for name in known) or ": " in reason, (
        f"{place}: {reason} says why, and not what to do"
    )


@pytest.mark.parametrize("name", ["COMPILER", "GPU", "TWO_GPUS", "BROWSER"])
def test_remedies(name):
    why, remedy = getattr(skips, name).split(": ", 1)
    assert why and remedy.startswith(("install", "run"))


def test_a_module_that_is_missing():
    with pytest.raises(pytest.skip.Exception, match=r"nowhere is not installed: pip install -e"):
        skips.needs("nowhere")
