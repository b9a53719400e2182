#!/usr/bin/env python3
"""Test compiled code where every access to memory is looked at: ``python scripts/sanitize.py``.

It is built once more, with GCC's AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the
package, and runs the tests that are named (default: those of ``TESTS``; more take longer). Whatever
the sanitizers find ends the process with a report.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import List, Optional

ROOT = Path(__file__).resolve().parents[1]
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
# All entry points of compiled code, and every method, which calls some of them.
TESTS = [
    "tests/engine/kernels",
    "tests/generators/test_top_tokens.py",
    "tests/generators/test_ids.py",
]
SLOW = "not command_line and not many_tokens"


def what_is_missing() -> Optional[str]:
    """Why nothing can be sanitized here, or ``None`` if it can."""
    if sys.platform != "linux" or shutil.which("gcc") is None or shutil.which("g++") is None:
        return "there is no GCC on Linux"
    missing = [name for name in ("libasan.so", "libubsan.so") if not _library(name).exists()]
    return f"GCC has no {missing[0]}" if missing else None


def _library(name: str) -> Path:
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return Path(found.stdout.strip())


def build(copy: Path) -> None:
    """Copy what is tested to a folder, and build it there with the sanitizers."""
    for name in ("fairseq_fastdec", "tests"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    folder = copy / "fairseq_fastdec" / "engine" / "kernels"
    # A higher optimization takes longer to compile and reports less exactly; -g1 is enough for the
    # names of functions and the numbers of lines in a report.
    flags = f"-std=gnu++17 -Wno-psabi -fPIC -shared {SANITIZERS} -O1 -g1 -fno-omit-frame-pointer"
    library = folder / f"_kernels{EXTENSION_SUFFIXES[0]}"
    subprocess.run(
        ["g++", *flags.split(), folder / "cpp" / "dispatch.cpp", "-o", library], check=True
    )


def environment(copy: Path) -> dict:
    """The environment of a process that loads the sanitized library."""
    return dict(
        os.environ,
        PYTHONPATH=str(copy),
        # The sanitizer must come before everything that asks for memory, and find what throws.
        LD_PRELOAD=f"{_library('libasan.so').resolve()} {_library('libstdc++.so.6').resolve()}",
        # Python keeps much of its memory until the end, and some of it behind the sanitizer's back.
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1",
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
        PYTHONMALLOC="malloc",
        PYTHONUNBUFFERED="1",
    )


def main(arguments: List[str]) -> int:
    problem = what_is_missing()
    if problem is not None:
        print(f"sanitize.py: {problem}; install GCC with its sanitizers", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        build(copy)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "--capture=sys", "-p", "no:cacheprovider",
             *(arguments or [*TESTS, "-k", SLOW])],
            cwd=copy, env=environment(copy),
        ).returncode  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
