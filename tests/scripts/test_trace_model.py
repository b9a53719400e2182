"""Tensors that differ from those of the reference are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_fastdec.importing import marian
from scripts import trace_model
from tests.support import firefox_models
from tests.support import marian_writing as writing

SCRIPT = Path(trace_model.__file__)
TOKENS = ["--tokens", "▁w3 ▁w0 ▁w7 </s>"]


@pytest.fixture
def folder(tmp_path):
    return writing.write_directory(tmp_path, writing.random_tensors(writing.SSRU))


def test_a_model_that_is_the_same(folder, capsys):
    assert trace_model.main([str(folder), *TOKENS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "source: ▁w3 ▁w0 ▁w7 </s>"
    assert lines[1].startswith("target: </s> ")
    names = [line.split(maxsplit=1)[1] for line in lines[2:]]
    assert names[0] == "encoder.layers.0 (input)" and names[-1] == "decoder.output_projection"
    assert "decoder.layers.1.self_attn" in names
    assert all(float(line.split()[0]) < 1e-4 for line in lines[2:])


@pytest.mark.parametrize(
    "parameter, first",
    [
        ("encoder.embed_tokens.weight", "encoder.layers.0 (input)"),
        ("encoder.layers.1.self_attn.k_proj.weight", "encoder.layers.1.self_attn"),
        ("encoder.layers.0.fc1.bias", "encoder.layers.0.fc2"),
        ("decoder.layers.0.self_attn.forget_proj.bias", "decoder.layers.0.self_attn"),
        ("decoder.layers.1.final_layer_norm.weight", "decoder.layers.1.final_layer_norm"),
        ("decoder.output_projection.bias", "decoder.output_projection"),
    ],
)
def test_the_first_tensor_that_differs_is_named(parameter, first, folder, capsys, monkeypatch):
    imported = marian.read(folder)
    imported.state[parameter] += 0.5 * imported.state[parameter].abs().add(1)
    monkeypatch.setattr(marian, "read", lambda path: imported)
    assert trace_model.main([str(folder), *TOKENS]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == f"first tensor that differs: {first}"
    assert trace_model.main([str(folder), *TOKENS, "--tolerance", "1e9"]) == 0


def test_the_command(folder):
    command = [sys.executable, str(SCRIPT), str(folder / "model.npz"), *TOKENS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "decoder.output_projection" in done.stdout


def test_a_text(capsys):
    folder = firefox_models.directory("enpt")
    assert trace_model.main([str(folder), "--text", "Good morning."]) == 0
    assert capsys.readouterr().out.startswith("source: ▁Good ▁morning . </s>\ntarget: </s> ▁Bom")
