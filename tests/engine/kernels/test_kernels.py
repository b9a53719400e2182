"""The kernels' own tests, in C++, on this processor, on those of Intel, and on ARM."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fairseq_fastdec import engine
from fairseq_fastdec.engine.kernels.loading import library
from tests.support import skips

FOLDER = Path(__file__).parent
ENGINE = Path(engine.__file__).parent
HEADERS = [f"-I{ENGINE}/kernels/cpp", f"-I{ENGINE}/cpp"]
# Needed by the emulation, which replaces only later instructions.
HAS_AVX2 = library() is not None and "avx2" in library().instruction_sets()
INTEL = "avx2 avx_vnni avx512 avx512_vnni avx512_bf16 amx".split()
# Processors that qemu emulates, and their instruction sets.
ARM = {
    "cortex-a72": ["neon"],
    "neoverse-n1": ["neon", "neon_dot"],
    "max": ["neon", "neon_dot", "neon_i8mm"],
}


def build(compiler, folder, *flags):
    """The program."""
    program = folder / "kernels_test"
    flags = [*"-std=gnu++17 -Wno-psabi -Wno-unknown-pragmas -pthread".split(), *flags, *HEADERS]
    subprocess.run([compiler, *flags, FOLDER / "kernels_test.cpp", "-o", program], check=True)
    return program


def sets_of_run(*command):
    """The instruction sets of the processor, after a run of the program."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said, names = done.stdout.split(":")
    assert said == "all kernels agree"
    return names.split()


@pytest.mark.skipif(shutil.which("g++") is None, reason=skips.COMPILER)
def test_kernels_against_naive_loops(tmp_path):
    found = sets_of_run(build("g++", tmp_path, "-O0", "-march=native"))
    assert library() is None or found == library().instruction_sets()


@pytest.mark.skipif(shutil.which("g++") is None, reason=skips.COMPILER)
@pytest.mark.skipif(not HAS_AVX2, reason=skips.AVX2)
def test_kernels_of_other_processors_by_emulated_instructions(tmp_path):
    flags = ["-O0", "-mavx2", "-mfma", "-include", FOLDER / "emulated.h"]
    # AddressSanitizer also reports what the first three find when the memory is accessed.
    # Alignment, which takes a third of the compile time, is checked by scripts/sanitize.py.
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags += ["-fno-sanitize=null,object-size,pointer-overflow,alignment"]
    # Calls of AddressSanitizer compile faster than its own code at each access.
    flags += ["--param", "asan-instrumentation-with-call-threshold=0"]
    assert sets_of_run(build("g++", tmp_path, *flags)) == ["generic", *INTEL]


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-g++") is None, reason=skips.ARM)
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason=skips.ARM)
def test_kernels_on_arm(tmp_path):
    program = build("aarch64-linux-gnu-g++", tmp_path, "-O0", "-static")
    for number, (name, sets) in enumerate(ARM.items()):
        # Each processor runs the tests of the set that the previous one does not have.
        only = sets[-1:] if number else []
        found = sets_of_run("qemu-aarch64", "-cpu", name, program, *only)
        assert found == ["generic", *sets]
