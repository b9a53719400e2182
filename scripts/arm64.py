#!/usr/bin/env python3
"""Decode on ARM, by emulation: ``python scripts/arm64.py model.fastdec sentences.txt``.

Compiles the engine for 64-bit ARM, translates the file there with each instruction set, and
compares the translations with those of this processor; the exit code is 1 if one differs. It needs
``apt-get install g++-aarch64-linux-gnu qemu-user``, and downloads Python and packages for ARM into
``build/arm64``. Emulation says nothing about speed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11

ROOT = Path(__file__).resolve().parents[1]
ENGINE = "fairseq_fastdec/engine"
FLAGS = "-std=gnu++17 -O3 -DNDEBUG -fvisibility=hidden -Wno-psabi -fPIC".split()
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
TOOLS = [COMPILER, EMULATOR, "apt-get", "dpkg"]
# Debian's packages for an emulated Python, and for building an extension.
DEBIAN = """
libbz2-1.0 libc6 libcrypt1 libdb5.3 libexpat1 libffi8 libgcc-s1 liblzma5 libpython3-dev
libpython3-stdlib libpython3.11-dev libpython3.11-minimal libpython3.11-stdlib libsqlite3-0 libssl3
libstdc++6 libuuid1 python3.11-minimal zlib1g
""".split()
PYTHON = "3.11"  # Debian 12's
PYPI = ["numpy", "sacremoses", "sentencepiece", "subword-nmt", "tqdm"]
PLATFORMS = ["manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64"]


def run(*command: object, **options: object) -> None:
    """Run a command; an error ends this one."""
    subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload]


def download(folder: Path) -> None:
    """Unpack Python into ``root`` and the packages into ``site``."""
    for name in ("state/lists/partial", "cache/archives/partial", "debs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    # apt's own files stay as they are.
    own = [f"Dir::State={folder}/state", f"Dir::Cache={folder}/cache"]
    own += [f"Dir::State::status={folder}/status"]
    own += ["APT::Architecture=arm64", "APT::Architectures=arm64", "APT::Sandbox::User=root"]
    options = [word for option in own for word in ("-o", option)]
    run("apt-get", "-qq", *options, "update")
    run("apt-get", "-qq", *options, "download", *DEBIAN, cwd=folder / "debs")
    for package in sorted((folder / "debs").glob("*.deb")):
        run("dpkg", "-x", package, folder / "root")
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:", *platforms]
    run(*pip, "--python-version", PYTHON, "--target", folder / "site", *PYPI)


def build(folder: Path) -> None:
    """Copy the package, and compile the engine in it."""
    package = folder / "package" / "fairseq_fastdec"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "fairseq_fastdec", package, ignore=ignored)
    headers = folder / "root" / "usr" / "include"
    places = [pybind11.get_include(), headers, headers / f"python{PYTHON}"]
    flags = [*FLAGS, *(f"-I{place}" for place in places)]
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)

    def compiled(source: Path) -> Path:
        made = objects / f"{source.stem}.o"
        run(COMPILER, *flags, "-c", source, "-o", made)
        return made

    searches, kernels = ROOT / ENGINE / "cpp", ROOT / ENGINE / "kernels" / "cpp"
    sources = [searches / "binding.cpp", searches / "engine.cpp", *sorted(kernels.glob("*.cpp"))]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as compilers:
        made = list(compilers.map(compiled, sources))
    digits = PYTHON.replace(".", "")
    library = package / "engine" / "kernels" / f"_engine.cpython-{digits}-aarch64-linux-gnu.so"
    run(COMPILER, "-shared", *made, "-o", library)


def emulated(folder: Path, *arguments: object, isa: str = "") -> str:
    """What the command of this package prints on ARM."""
    places = os.pathsep.join([str(folder / "package"), str(folder / "site")])
    variables = {"PYTHONPATH": places, "OMP_NUM_THREADS": "1", "FASTDEC_ISA": isa}
    given = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    root = folder / "root"
    command = [EMULATOR, "-cpu", "max", "-L", root, *given, root / f"usr/bin/python{PYTHON}"]
    command += ["-m", "fairseq_fastdec", *arguments]
    words = [str(word) for word in command]
    # Elsewhere, Python would import the package of this folder.
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd=folder)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("input", type=Path, help="a sentence per line")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm64")
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"arm64.py: {', '.join(missing)}: not found", file=sys.stderr)
        return 2
    folder = options.folder.resolve()
    if not (folder / "site").exists():
        download(folder)
    build(folder)
    words = ["translate", options.bundle.resolve(), "--input", options.input.resolve()]
    here = [sys.executable, "-m", "fairseq_fastdec", *map(str, words)]
    expected = subprocess.run(here, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
    n_different = 0
    for isa in ("neon", "neon_dot", "neon_i8mm"):
        pairs = list(zip(emulated(folder, *words, isa=isa).splitlines(), expected.splitlines()))
        n_same = sum(own == other for own, other in pairs)
        print(f"{isa}: {n_same} of {len(pairs)} translations are those of this processor")
        n_different += len(pairs) - n_same
    return int(n_different > 0)


if __name__ == "__main__":
    sys.exit(main())
