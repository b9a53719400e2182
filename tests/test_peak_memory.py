"""A command that only decodes never holds the model as fairseq computes with it in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import peak_memory, skips, tiny
from tests.support.compiled import compiled

ROOT = Path(__file__).resolve().parents[1]
LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="memory is measured on Linux only: run it there"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("peak_memory") / "checkpoint.pt"
    peak_memory.write_checkpoint(path)
    return path


def measured(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.support.peak_memory", *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@LINUX
@pytest.mark.skipif(tiny.OLD_FAIRSEQ, reason=skips.OLD_FAIRSEQ)
@compiled
def test_int8(checkpoint):
    """The optimizer's state is twice the model, which is nearly all linear layers."""
    sizes = measured(checkpoint, "int8")
    model = sizes["model"]
    assert model > 100
    # Its matrices stay in the file until they are prepared.
    assert sizes["loading"] < 0.5 * model, sizes
    assert sizes["decoding"] < 1.2 * model, sizes
    assert sizes["in_the_end"] < 0.7 * model, sizes
    kept = measured(checkpoint, "int8", "--keep-model")
    assert kept["tokens"] == sizes["tokens"]
    assert kept["in_the_end"] > 1.15 * model, kept
