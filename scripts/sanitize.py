#!/usr/bin/env python3
"""Test compiled code with GCC's sanitizers: ``python scripts/sanitize.py [--threads] [TESTS]``.

The compiled code is built in a copy of the package, which then runs the tests: with
AddressSanitizer and UndefinedBehaviorSanitizer, or with ``--threads`` with ThreadSanitizer, which
finds data races. Any finding ends the process with a report. The default tests are ``TESTS`` or
``THREAD_TESTS``.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple, Optional

import pybind11

ROOT = Path(__file__).resolve().parents[1]
# These cover all entry points of compiled code and every method.
TESTS = [
    "tests/engine/kernels",
    "--ignore=tests/engine/kernels/test_kernels.py",  # a separate program
    "tests/decoding/test_alignments.py",
    "tests/decoding/test_request.py",
    "tests/decoding/test_compiled.py",
    "tests/decoding/test_compiled_beams.py",
    "tests/decoding/test_compiled_outputs.py",
    "tests/decoding/test_compiled_pairs.py",
    "tests/decoding/methods/test_lexical_constraints.py",
    "tests/translating/test_scheduler.py",
    "-k",
    "not command_line and not many_tokens and not hypotheses_of_fairseq",
]
THREAD_TESTS = ["tests/decoding/test_threads.py", "tests/translating/test_scheduler.py"]


class Sanitizers(NamedTuple):
    """A set of compatible sanitizers.

    Attributes:
        flags: additional flags of GCC.
        libraries: libraries to preload, for memory allocation and exceptions.
        options: environment variables of the process.
        program: the command that runs Python.
        tests: the default tests.
    """

    flags: str
    libraries: list[str]
    options: dict[str, str]
    program: list[str]
    tests: list[str]


MEMORY = Sanitizers(
    # AddressSanitizer also reports what these three find when the memory is accessed.
    "-fsanitize=address,undefined -fno-sanitize=null,object-size,pointer-overflow"
    " -fno-sanitize-recover=all",
    ["libasan.so", "libstdc++.so.6"],
    # Python keeps memory until exit, so leaks are not detected.
    dict(
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1",
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
    ),
    [],
    TESTS,
)
THREADS = Sanitizers(
    "-fsanitize=thread",
    ["libtsan.so"],
    # torch's OpenMP is not instrumented, so its barriers are invisible: use one thread per call.
    dict(
        TSAN_OPTIONS="halt_on_error=1:report_signal_unsafe=0:ignore_noninstrumented_modules=1",
        OMP_NUM_THREADS="1",
    ),
    # Random addresses can conflict with the sanitizer's memory.
    ["setarch", "-R"],
    THREAD_TESTS,
)


def what_is_missing(sanitizers: Sanitizers) -> Optional[str]:
    """The reason why the sanitizers cannot be used here, or ``None``."""
    if sys.platform != "linux" or shutil.which("gcc") is None or shutil.which("g++") is None:
        return "there is no GCC on Linux"
    missing = [name for name in sanitizers.libraries if not _library(name).exists()]
    if missing:
        return f"GCC has no {missing[0]}"
    absent = [name for name in sanitizers.program[:1] if shutil.which(name) is None]
    return f"there is no {absent[0]}" if absent else None


def _library(name: str) -> Path:
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return Path(found.stdout.strip())


def build(copy: Path, sanitizers: Sanitizers) -> None:
    """Copy the package and tests to a folder, and build it there with the sanitizers.

    It is not optimized, which would slow compilation and make reports less exact; -g1 is enough for
    function names and line numbers in reports.
    """
    for name in ("fairseq_fastdec", "tests"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    engine = copy / "fairseq_fastdec" / "engine"
    binding, searches = engine / "cpp" / "binding.cpp", engine / "cpp" / "engine.cpp"
    sources = [binding, searches, *sorted((engine / "kernels").rglob("*.cpp"))]
    flags = "-std=gnu++17 -fvisibility=hidden -Wno-psabi -fPIC -g1 -fno-omit-frame-pointer".split()
    flags += sanitizers.flags.split()
    flags += [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
    # Without checks of the stack and of undefined behavior, which would double the compile time,
    # mostly of pybind11's code.
    additional = {binding: ["-fno-sanitize=undefined", "--param", "asan-stack=0"]}

    def compiled(source: Path) -> Path:
        made = source.with_suffix(".o")
        own = additional.get(source, [])
        subprocess.run(["g++", *flags, *own, "-c", source, "-o", made], check=True)
        return made

    with ThreadPoolExecutor(min(3, len(os.sched_getaffinity(0)))) as compilers:
        objects = list(compilers.map(compiled, sources))
    library = engine / "kernels" / f"_engine{EXTENSION_SUFFIXES[0]}"
    subprocess.run(["g++", "-shared", *flags, *objects, "-o", library], check=True)


def environment(copy: Path, sanitizers: Sanitizers) -> dict[str, str]:
    """The environment of a process that loads the sanitized library."""
    libraries = [str(_library(name).resolve()) for name in sanitizers.libraries]
    return dict(
        os.environ,
        **sanitizers.options,
        PYTHONPATH=str(copy),
        LD_PRELOAD=" ".join(libraries),
        PYTHONUNBUFFERED="1",
        FASTDEC_SANITIZED="1",
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", action="store_true", help="find data races between threads")
    options, tests = parser.parse_known_args(arguments)
    sanitizers = THREADS if options.threads else MEMORY
    problem = what_is_missing(sanitizers)
    if problem is not None:
        print(f"sanitize.py: {problem}; install GCC with its sanitizers", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        build(copy, sanitizers)
        # Without plugins of pytest, which the tests do not need and which are slow to import.
        options = ["-q", "-x", "--capture=sys", "-p", "no:cacheprovider"]
        options += ["-o", "addopts=", "--disable-plugin-autoload"]
        return subprocess.run(
            [*sanitizers.program, sys.executable, "-m", "pytest", *options]
            + (tests or sanitizers.tests),
            cwd=copy,
            env=environment(copy, sanitizers),
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
