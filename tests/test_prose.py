"""The words of the code: sentences, and no figures of speed (CONTRIBUTING.md, "Style")."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fairseq_fastdec"
SOURCES = sorted(
    path
    for folder in (PACKAGE, ROOT / "benchmarks")
    for kind in ("py", "h", "cpp")
    for path in folder.rglob(f"*.{kind}")
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
FRAGMENT = re.compile(r"(Of|What|Which|How)\b")
TIMING = re.compile(
    r"\d ?(ms|us|µs|microseconds?|milliseconds?|seconds?|%)(?!\w)|times as (fast|long)"
    r"|(half|third|quarter|fifth|sixth|tenth)( of)? (a second|(its|the|their) time)"
)


def docstrings(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            yield ast.get_docstring(node)


def comments(path):
    """The comments of a file, those on lines of their own joined where they follow each other."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [" ".join(re.findall(r"//(.*)", text))]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [" ".join(token.string[1:] for token in tokens if token.type == tokenize.COMMENT)]


def classes(path):
    """The public classes and type aliases of a file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        yield from (name for name in names if re.match("[A-Z][A-Za-z0-9]*[a-z]", name))


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in SOURCES if p.suffix == ".py"], ids=name_of)
def test_a_docstring_begins_with_its_subject_or_its_verb(path):
    fragments = [text.split("\n")[0] for text in docstrings(path) if FRAGMENT.match(text)]
    assert fragments == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_timings_are_in_the_document_of_performance(path):
    """There they have a date, a machine, a commit and a command, and can be measured again."""
    texts = comments(path) + (list(docstrings(path)) if path.suffix == ".py" else [])
    found = [TIMING.search(" ".join(text.split())) for text in texts]
    assert [match.group() for match in found if match] == []


def test_a_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for path in SOURCES:
        if path.suffix == ".py":
            for name in classes(path):
                places[name].append(name_of(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
