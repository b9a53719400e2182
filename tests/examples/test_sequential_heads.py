"""The example of sequential heads: a tiny model through all its stages."""

import json
import sys

import pytest
import torch

from examples.common import en_de
from examples.en_de import run
from examples.en_de import sequential_heads as example
from tests.support import example_in_process

KEPT = ("chain of 3", "chain of 7")


@pytest.fixture
def small(corpus, blockwise, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    # The tiny network's output layer has 32 inputs.
    schedule = [*en_de.schedule(100, 3e-3, 5, 12), "--dropout", "0", "--block-output-rank", "8"]
    monkeypatch.setattr(example, "TRAINING", [*example.TRAINING, *schedule])
    monkeypatch.setattr(example, "METHODS", {name: example.METHODS[name] for name in KEPT})
    monkeypatch.setattr(example, "FIRST_MODEL", blockwise)
    return example_in_process.on_letters(corpus, monkeypatch, caplog, "train.en")


def test_all_stages(small, blockwise, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sequential_heads.py", "--workdir", str(tmp_path)])
    example.main()
    assert small.count("fairseq-train") == 1 and small.count("fairseq-generate") == 1 + len(KEPT)
    before, after = (
        torch.load(path, weights_only=True)["model"]
        for path in (blockwise, tmp_path / "heads" / "checkpoint_last.pt")
    )
    assert "decoder.heads.token.weight" in after
    start = torch.load(tmp_path / "base.pt", weights_only=True)["model"]
    assert set(start) == {name for name in before if ".heads." not in name}
    base = [name for name in after if ".heads." not in name and name in before]
    assert len(base) > 20
    assert all(torch.equal(after[name], before[name].float()) for name in base)
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out + "\n"
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ")][1:]
    assert [name.strip() for name, _ in rows] == ["greedy", *KEPT]
    assert len({bleu for _, bleu in rows}) == 1
    invocations = {}
    for name in KEPT:
        folder = tmp_path / "decoded" / name.replace(" ", "-")
        lines = (folder / "stats.jsonl").read_text().splitlines()
        invocations[name] = sum(json.loads(line)["invocations"] for line in lines)
    assert invocations["chain of 7"] <= invocations["chain of 3"]
    n_run = len(small)
    example.main()
    assert len(small) == n_run


def test_the_recipe_trains_such_heads_too(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(run.commands, "run", ran.append)
    for folder in ("frozen", "frozen_sequential"):
        (tmp_path / folder).mkdir()
    for kind, name in (("parallel", "frozen"), ("sequential", "frozen_sequential")):
        assert run.train_blockwise(tmp_path, en_de.RECIPES["quick"], kind) == name
        words = [str(word) for word in ran[-1]]
        assert words[words.index("--save-dir") + 1] == str(tmp_path / name)
        assert ("--block-heads" in words) == (kind == "sequential")
        assert ("--block-ffn" in words) == (kind == "parallel")
