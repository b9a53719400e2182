"""The comparison of several seeds: tiny models through all its stages."""

import sys

import pytest
import torch

from examples.common import significance
from examples.common.training_text import read
from examples.double_token import distilled as example
from examples.double_token import precision, table_2
from tests.support import command_line, example_in_process


@pytest.fixture
def small(corpus, blockwise, tmp_path, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    monkeypatch.setattr(example, "TRAINING", example.training(100, 3e-3, 5, 12, dropout=0))
    monkeypatch.setattr(example, "NETWORK", command_line.TINY)
    monkeypatch.setattr(example, "TEACHER", blockwise)
    monkeypatch.setattr("examples.double_token.run.SETTINGS", ((4, 8),))
    monkeypatch.setattr(table_2, "BATCH_SIZE", 8)
    monkeypatch.setattr(table_2, "BEAM", 4)
    monkeypatch.setattr(table_2, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(table_2, "PAGE", tmp_path / "page.md")
    marks = f"<!-- {table_2.SECTION} -->\n<!-- end of {table_2.SECTION} -->\n"
    (tmp_path / "page.md").write_text(marks, encoding="utf-8")
    monkeypatch.setattr(precision, "LONGER_THAN", 7)
    monkeypatch.setattr(significance, "TRIALS", 100)
    arguments = ["distilled.py", "--workdir", str(tmp_path), "--rounds", "1", "--seeds", "1", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    return example_in_process.on_letters(corpus, monkeypatch, caplog, "train.en", "test.de")


def test_all_stages(small, tmp_path, capsys):
    example.main()
    n_models, n_methods = len(example.MODELS), len(example.methods(1))
    assert (n_models, n_methods) == (5, 7)
    assert small.count("fairseq-train") == 2 * n_models
    assert small.count("fairseq-generate") == 2 * n_methods
    own, sources = (read(tmp_path / name / "text/train.en") for name in ("data", "sources"))
    assert len(sources) == len(set(own)) + 40
    first, of_another_seed = (
        torch.load(tmp_path / name / "averaged.pt", weights_only=True)["model"]
        for name in ("double_l2r-1", "double_l2r-2")
    )
    name = "encoder.layers.0.fc1.weight"
    assert not torch.equal(first[name], of_another_seed[name])
    titles = [method.title for method in example.methods(1)]
    printed = capsys.readouterr().out
    for seed in (1, 2):
        table = (tmp_path / f"tables-{seed}.md").read_text(encoding="utf-8")
        assert table.split("\n\n")[1] in printed
        assert all(f"| {title} |" in table for title in titles)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    lines = {line.split(" | ")[0].strip("| "): line for line in page.splitlines()}
    for title in titles:
        assert lines[title].startswith(f"| {title} | 2 | ")
        assert "±" in lines[title]
    before = len(small)
    example.main()
    assert len(small) == before
