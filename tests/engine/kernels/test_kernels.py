"""The kernels' own tests, in C++."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fairseq_fastdec import engine
from tests.support import skips

SOURCE = Path(__file__).with_name("kernels_test.cpp")
ENGINE = Path(engine.__file__).parent


@pytest.mark.skipif(shutil.which("g++") is None, reason=skips.COMPILER)
def test_kernels_against_naive_loops(tmp_path):
    program = tmp_path / "kernels_test"
    flags = "-std=gnu++17 -O0 -march=native -Wno-psabi -pthread".split()
    subprocess.run(
        ["g++", *flags, f"-I{ENGINE}/kernels/cpp", f"-I{ENGINE}/cpp", SOURCE, "-o", program],
        check=True,
    )
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "all kernels agree\n"), done.stdout + done.stderr
