"""The example of large blocks: a tiny model through all its stages."""

import sys

import pytest
import torch

from examples.common import en_de
from examples.common.training_text import read
from examples.en_de import large_blocks as example
from tests.support import example_in_process


@pytest.fixture
def small(corpus, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    schedule = [*en_de.schedule(100, 3e-3, 5, 12), "--dropout", "0"]
    monkeypatch.setattr(example, "TRAINING", [*example.TRAINING, *schedule])
    monkeypatch.setattr(example, "METHODS", {name: example.METHODS[name] for name in KEPT})
    return example_in_process.on_letters(corpus, monkeypatch, caplog, "train.en")


KEPT = ("each head's best", "top 2")


def test_all_stages(small, baseline, tmp_path, monkeypatch, capsys):
    arguments = ["large_blocks.py", "--workdir", str(tmp_path), "--teacher", str(baseline)]
    monkeypatch.setattr(sys, "argv", arguments)
    example.main()
    assert small.count("fairseq-train") == 1 and small.count("fairseq-generate") == 1 + len(KEPT)
    own = read(tmp_path / "data/text/train.en")
    sources = read(tmp_path / "sources/text/train.en")
    assert sources[: len(set(own))] == list(dict.fromkeys(own))
    assert 0 < len(sources) - len(set(own)) <= 40
    parameters = torch.load(tmp_path / "blocks" / "averaged.pt", weights_only=True)["model"]
    assert any("decoder.layers.5." in name for name in parameters)
    assert parameters["decoder.heads.output_bias"].size(0) == example.BLOCK_SIZE - 1
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out + "\n"
    rows = [line.split("|")[2].strip() for line in table.splitlines() if "| k = 8 |" in line]
    assert rows == list(KEPT)
    before = len(small)
    example.main()
    assert len(small) == before


def test_without_a_teacher(tmp_path, monkeypatch, capsys):
    missing = str(tmp_path / "none.pt")
    monkeypatch.setattr(sys, "argv", ["large_blocks.py", "--teacher", missing])
    with pytest.raises(SystemExit):
        example.main()
    assert "create it with more_sources.py" in capsys.readouterr().err
