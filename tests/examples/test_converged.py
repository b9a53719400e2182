"""The example whose models all begin with the same one: tiny models through all its stages."""

import sys

import pytest
import torch

from examples.common import significance
from examples.common.training_text import read
from examples.double_token import converged as example
from examples.double_token import precision
from tests.support import command_line, example_in_process


@pytest.fixture
def small(corpus, blockwise, tmp_path, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    monkeypatch.setattr(example, "TRAINING", example.training(100, 3e-3, 5, 12, dropout=0))
    monkeypatch.setattr(example, "NETWORK", command_line.TINY)
    monkeypatch.setattr(example, "FIRST_MODEL", blockwise)
    monkeypatch.setattr("examples.double_token.run.SETTINGS", ((4, 8),))
    monkeypatch.setattr(precision, "LONGER_THAN", 7)
    monkeypatch.setattr(significance, "TRIALS", 100)
    arguments = ["converged.py", "--workdir", str(tmp_path), "--rounds", "1", "--seeds", "1", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    return example_in_process.on_letters(corpus, monkeypatch, caplog, "train.en", "test.de")


def test_all_stages(small, tmp_path, capsys):
    example.main()
    n_learners, n_methods = len(example.LEARNERS), len(example.methods(1))
    assert (n_learners, n_methods) == (4, 6)
    assert small.count("fairseq-train") == 2 * n_learners
    # The first model is that of both seeds.
    assert small.count("fairseq-generate") == n_methods + n_learners
    own, sources = (read(tmp_path / name / "text/train.en") for name in ("data", "sources"))
    assert len(sources) == len(set(own)) + 40
    first, second, of_another_seed = (
        torch.load(tmp_path / name / "averaged.pt", weights_only=True)["model"]
        for name in ("single_l2r", "double_l2r-1", "double_l2r-2")
    )
    assert not any(".heads." in name for name in first)
    # So few updates leave it close to where it began.
    name = "encoder.layers.0.fc1.weight"
    assert 0 < (first[name] - second[name]).norm() < 0.5 * first[name].norm()
    assert not torch.equal(second[name], of_another_seed[name])
    table = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert table.split("\n\n")[1] in capsys.readouterr().out
    one_seed, of_seeds = table.split("2 seeds, batch size 8:")
    assert all(f"| {method.title} |" in one_seed for method in example.methods(1))
    assert all(f"| {method.title} |" in of_seeds for method in example.methods(1))
    assert of_seeds.count("±") == n_methods
    before = len(small)
    example.main()
    assert len(small) == before
