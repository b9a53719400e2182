"""Who may stand on whom: a file imports its own floor or lower ones (docs/architecture.md)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.floors import FLOORS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fairseq_fastdec"

KERNELS = ROOT / PACKAGE / "engine" / "kernels" / "cpp"
CPP = sorted(path for kind in ("*.h", "*.cpp") for path in (ROOT / PACKAGE).rglob(kind))

ALONE = "engine.kernels"  # imports nothing of the package's

# The rooms that decode bundles on a machine without torch and fairseq, and modules of other rooms.
WITHOUT_TORCH = ("data", "engine", "processes", "serving", "translating")
ALSO_WITHOUT_TORCH = ("importing.command", "importing.recognising")

FILES = sorted(
    path for path in (ROOT / PACKAGE).rglob("*.py") if path != ROOT / PACKAGE / "__init__.py"
)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def floor_of(module: str) -> int:
    """The floor of a module, by the longest name that it begins with."""
    names = [(name, floor) for floor, names in enumerate(FLOORS) for name in names]
    fits = [pair for pair in names if not pair[0] or f"{module}.".startswith(f"{pair[0]}.")]
    return max(fits, key=lambda pair: len(pair[0]))[1]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The package's modules that a file imports, and the lines where it does."""
    folder = (PACKAGE, *path.relative_to(ROOT / PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(folder[: len(folder) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                yield name[len(PACKAGE) + 1 :], node.lineno


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_imports_its_own_floor_or_lower_ones(path):
    own = floor_of(module_name(path))
    above = [f"line {line}: {name}" for name, line in imported(path) if floor_of(name) > own]
    assert above == []


@pytest.mark.parametrize(
    "path", [path for path in FILES if module_name(path).startswith(ALONE)], ids=module_name
)
def test_kernels_import_nothing_of_ours(path):
    others = [name for name, _ in imported(path) if not name.startswith(ALONE)]
    assert others == []


def test_rooms_that_need_no_torch_import_without_it():
    rooms = [name for name in map(module_name, FILES) if name.split(".")[0] in WITHOUT_TORCH]
    assert len(rooms) > 40
    rooms += ALSO_WITHOUT_TORCH
    code = f"""
import importlib, sys

class Blocked:
    def find_spec(name, *_):
        assert name.partition(".")[0] not in ("torch", "fairseq"), name

sys.meta_path.insert(0, Blocked)
for name in {rooms}:
    importlib.import_module(f"{PACKAGE}.{{name}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def included(path: Path) -> list[Path]:
    """The files of the package that a C++ file includes."""
    names = re.findall(r'(?m)^#include "([^"]+)"', path.read_text(encoding="utf-8"))
    return [(path.parent / name).resolve() for name in names]


def test_cpp_includes_what_exists():
    assert len(CPP) > 50
    missing = [f"{path.name}: {name}" for path in CPP for name in included(path) if name not in CPP]
    assert missing == []


@pytest.mark.parametrize("path", CPP, ids=lambda path: path.name)
def test_cpp_of_kernels_includes_kernels_only(path):
    """The searches stand on the kernels, and not the other way round."""
    above = [name.name for name in included(path) if name.parent != KERNELS]
    assert path.parent != KERNELS or above == []


def test_cpp_has_no_circles():
    below: dict[Path, set[Path]] = {}

    def visit(path: Path, way: tuple[Path, ...]) -> None:
        assert path not in way, " includes ".join(own.name for own in (*way, path))
        if path not in below:
            below[path] = set(included(path))
            for name in below[path]:
                visit(name, (*way, path))

    for path in CPP:
        visit(path, ())


def test_every_floor_has_files():
    modules = [module_name(path) for path in FILES]
    for names in FLOORS[:-1]:
        assert all(any(f"{m}.".startswith(f"{name}.") for m in modules) for name in names)
