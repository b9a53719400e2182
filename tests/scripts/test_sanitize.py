"""Compiled code under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer.

Deselect it with ``-m "not sanitizers"``.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_fastdec.engine.kernels.loading import library
from tests.support import skips
from tests.support.trained_models import ORDERS, blockwise_model, double_model, stock_model

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "sanitize.py"


def script():
    spec = importlib.util.spec_from_file_location("sanitize", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def trained(baseline):
    """Models of the tests, whose training takes longer with the sanitizers."""
    for seed in range(2):
        stock_model(seed)
        blockwise_model(block_heads="sequential", seed=seed)
    blockwise_model()
    blockwise_model(block_ffn="split", seed=1)
    blockwise_model(identity_first_head=False, freeze_base=False)
    stock_model(1, decoder_layers=1)
    for order in ORDERS:
        double_model(order)


@pytest.mark.sanitizers
@pytest.mark.skipif(library() is None, reason=skips.COMPILER)
@pytest.mark.parametrize("arguments", [[], ["--threads"]], ids=["memory", "threads"])
def test_nothing_is_found(arguments, trained):
    missing = script().what_is_missing(script().THREADS if arguments else script().MEMORY)
    if missing is not None:
        pytest.skip(f"{missing}: install GCC and its sanitizers (libasan, libubsan, libtsan)")
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout


def test_without_the_sanitizers_it_says_so(monkeypatch, capsys):
    module = script()
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert module.main([]) == 2
    assert "there is no GCC on Linux; install GCC" in capsys.readouterr().err
