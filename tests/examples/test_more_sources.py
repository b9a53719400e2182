"""The example that learns translations of more sources: tiny models through all its stages."""

import sys
from dataclasses import replace

import pytest
import torch

from examples.common.training_text import read
from examples.double_token import more_sources as example
from tests.support import example_in_process, tiny

TASK = tiny.task(20)


@pytest.fixture
def small(corpus, blockwise, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    training = example.training(100, 3e-3, 5, 12, dropout=0)
    stages = [replace(stage, training=training) for stage in example.STAGES]
    monkeypatch.setattr(example, "STAGES", stages)
    monkeypatch.setattr(example, "BEAMS", (2,))
    monkeypatch.setattr(example, "FIRST_MODEL", blockwise)
    return example_in_process.on_letters(corpus, monkeypatch, caplog)


def test_all_stages(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["more_sources.py", "--workdir", str(tmp_path)])
    example.main()
    assert small.count("fairseq-train") == 4 and small.count("fairseq-generate") == 4
    n_lines = {
        name: len(read(tmp_path / name / "text/train.en"))
        for name in ("distilled/data", "translated/data", "mixed")
    }
    assert 30 < n_lines["translated/data"] <= 40
    assert n_lines["mixed"] == 2 * n_lines["distilled/data"] + n_lines["translated/data"]
    parameters = torch.load(
        tmp_path / "deeper_distilled_double" / "averaged.pt", weights_only=True
    )["model"]
    outputs = [parameters[f"decoder.layers.{layer}.fc2.weight"].norm() for layer in range(4)]
    assert outputs[0] > 10 * outputs[3] > 0
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out + "\n" and table.count("Double-token bidir.") == 2
    before = len(small)
    example.main()
    assert len(small) == before


@torch.no_grad()
def test_more_layers_change_nothing_yet():
    options = dict(encoder_normalize_before=True, decoder_normalize_before=True)
    model = tiny.stir(tiny.build_model(TASK, **options))
    deeper = tiny.build_model(TASK, decoder_layers=4, **options)
    deeper.load_state_dict(example.deepened(dict(model.state_dict()), 4))
    batch = tiny.random_batch(TASK, [4, 6])["net_input"]
    tokens = torch.randint(4, 20, (2, 5))
    logits = [one(batch["src_tokens"], batch["src_lengths"], tokens)[0] for one in (model, deeper)]
    assert torch.equal(*logits)


def test_the_base_of_a_blockwise_model():
    blockwise = tiny.build_model(TASK, "blockwise_transformer", identity_first_head=True)
    base = tiny.build_model(TASK)
    assert example.without_heads(blockwise.state_dict()).keys() == base.state_dict().keys()
