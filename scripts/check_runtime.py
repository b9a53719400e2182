#!/usr/bin/env python3
"""Build the wheel of ``fastdec-runtime``, and try it in new environments without a compiler.

    python scripts/check_runtime.py python3.10 python3.13 --json benchmarks/runtime.json

needs auditwheel and patchelf, and fairseq in this environment. For each Python, it

1. builds the wheel, and lets auditwheel name the oldest glibc that it runs with
2. installs it with the extra ``serve``, and fails if torch or fairseq is installed, too
3. compares translations of a bundle with those of this environment, one request to the service, and
   the message for a checkpoint
4. measures the environment's size, without pip, and the time of a process that translates a
   sentence
5. runs the tests of the service that need no checkpoint
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.common import commands
from examples.serve.cold_start import OURS, SENTENCE

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "examples" / "en_de" / "model"
TEXT = ROOT / "examples" / "en_de" / "data" / "test.en"
N_LINES, ROUNDS = 100, 9
# What the tests of the service import besides the package.
FOR_TESTS = "pytest hypothesis httpx libretranslatepy schemathesis>=4.4 py3langid".split()
# Files with tests of the service that need checkpoints, Ray, or a browser.
OTHER_TESTS = ("bundles", "drafts", "models_of_many_languages", "page", "ray_serve", "real_model")

# Files of the checkout that no build needs.
NOT_COPIED = (".*", "build", "work", "*.so", "*.egg-info")


def main() -> None:
    """Check each Python, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    args = parser.parse_args()
    found: dict[str, Any] = {**commands.provenance(), "pythons": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle, text, expected = folder / "model.fastdec", folder / "text.en", folder / "text.de"
        text.write_text("".join(TEXT.open(encoding="utf-8").readlines()[:N_LINES]), "utf-8")
        fast = [sys.executable, "-m", "fairseq_fastdec"]
        run(*fast, "export", MODEL, "--engine-precision", "int8", "--output", bundle)
        run(*fast, "translate", bundle, "--input", text, "--output", expected)
        for python in args.pythons:
            place = folder / Path(python).name
            place.mkdir()
            told = checked(place, python, bundle, text, expected.read_text("utf-8"))
            found["pythons"][told.pop("python")] = told
            print(told)
    if args.json:
        args.json.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")


def checked(place: Path, python: str, bundle: Path, text: Path, expected: str) -> dict[str, Any]:
    """Check one Python; see the module.

    Raises:
        AssertionError: if a translation, a message or the packages are not those expected.
        SystemExit: if a command or a test fails.
    """
    # Without what earlier builds compiled.
    shutil.copytree(ROOT, place / "source", ignore=shutil.ignore_patterns(*NOT_COPIED))
    start = time.monotonic()
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place / "built", place / "source")
    build_seconds = time.monotonic() - start
    (built,) = (place / "built").iterdir()
    # auditwheel looks for patchelf.
    paths = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run(sys.executable, "-m", "auditwheel", "repair", "-w", place / "wheels", built, env=paths)
    (wheel,) = (place / "wheels").iterdir()
    run(python, "-m", "venv", place / "env")
    own = str(place / "env" / "bin" / "python")
    pip = [own, "-m", "pip"]
    run(*pip, "install", "-q", f"{wheel}[serve]", env={**os.environ, "CC": "false", "CXX": "false"})
    packages = run(*pip, "list", "--format=freeze").split()
    names = {re.split("==| @", package)[0] for package in packages}
    assert not names & {"torch", "fairseq", "ve-fairseq"}
    run(*pip, "uninstall", "-q", "-y", "pip", "setuptools")
    size = int(run("du", "-sk", place / "env").split()[0]) / 1024
    fast = [own, "-m", "fairseq_fastdec"]
    version = run(*fast, "--version", cwd=place)
    output = place / "text.de"
    run(*fast, "translate", bundle, "--input", text, "--output", output, cwd=place)
    assert output.read_text("utf-8") == expected, "other translations"
    ended = subprocess.run([*fast, "translate", MODEL], cwd=place, capture_output=True, text=True)
    assert ended.returncode == 2 and "pip install 'fastdec-runtime[fairseq]'" in ended.stderr
    with serving([*fast, "serve", bundle], place) as port:
        assert requested(port, text.open(encoding="utf-8").readline()) == expected.split("\n")[0]
    seconds = [cold_start(own, place, bundle) for _ in range(ROUNDS)]
    run(own, "-m", "ensurepip")
    run(*pip, "install", "-q", *FOR_TESTS)
    return {
        "python": run(own, "--version").split()[1],
        "version": version.strip(),
        "wheel": wheel.name,
        "build_seconds": round(build_seconds, 1),
        "megabytes": round(size, 1),
        "cold_start_seconds": round(statistics.median(seconds), 3),
        "tests_of_the_service": tests(own, place),
    }


def run(*command: object, **options: Any) -> str:
    """What a command prints; the end of the program if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}failed: {shlex.join(words)}")
    return done.stdout


def cold_start(python: str, place: Path, bundle: Path) -> float:
    """The seconds of a process that translates a sentence."""
    code = OURS.format(path=str(bundle), sentence=SENTENCE)
    start = time.perf_counter()
    assert run(python, "-c", code, cwd=place).strip()
    return time.perf_counter() - start


@contextlib.contextmanager
def serving(command: list[Any], place: Path) -> Iterator[int]:
    """Run a server, and yield its port."""
    port = commands.free_port()
    server = subprocess.Popen([*command, "--port", str(port)], cwd=place)
    try:
        yield port
    finally:
        server.terminate()
        assert server.wait() == 0


def requested(port: int, text: str) -> str:
    """The translation by a server, which may have to start first."""
    body = json.dumps({"q": text.strip(), "source": "en", "target": "de"}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"}
    )
    for _ in range(100):
        with contextlib.suppress(OSError), urllib.request.urlopen(request) as answer:
            return json.load(answer)["translatedText"]
        time.sleep(0.1)
    raise AssertionError("the server does not answer")


def tests(python: str, place: Path) -> str:
    """What pytest says of the service's tests, away from the package's source."""
    for name in ("tests", "examples", "docs"):
        (place / "source" / name).rename(place / name)
    for name in OTHER_TESTS:
        (place / "tests" / "serving" / f"test_{name}.py").unlink()
    options = ["-q", "--noconftest", "-k", "not with_a_real_model", "tests/serving"]
    told = run(python, "-m", "pytest", *options, cwd=place)
    return told.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
