"""The example that compares scores of targets with fairseq's scorer."""

import json
import os

import pytest

from examples.engine import scores as example


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the example with four pairs."""
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: None)
    monkeypatch.setattr(
        example, "whole", lambda bundles, folder: dict.fromkeys(["fairseq", "fp32", "int8"], int)
    )

    def main():
        sizes = ["--sentences", "4", "--alone", "2", "--batch-size", "1", "3", "--rounds", "2"]
        output = tmp_path / "scores.json"
        words = ["scores.py", "--machine", "Z", "--output", str(output), *sizes]
        monkeypatch.setattr("sys.argv", words)
        example.main()
        return json.loads(output.read_text(encoding="utf-8"))

    return main


def test_figures_and_a_table(run, capsys):
    figures = run()
    assert figures["machine"] == "Z" and figures["sentences"] == {"batch 1": 2, "others": 4}
    assert set(figures["seconds"]) == {"batch 1", "batch 3", "command"}
    assert all(len(own) == 2 for own in figures["seconds"]["batch 3"].values())
    median, least, most = figures["ratios"]["batch 3"]["int8"]
    assert 0 < least <= median <= most
    assert figures["ratios"]["batch 1"]["fairseq"] == [1.0, 1.0, 1.0]
    assert "| int8 | " in capsys.readouterr().out


def test_other_scores_are_an_error(run, monkeypatch):
    monkeypatch.setattr(example, "EXACT", -1.0)
    with pytest.raises(ValueError, match="^fp32: a score differs from fairseq's by "):
        run()


def test_whole_commands_score_the_same_pairs(tmp_path):
    runs = example.whole(example.exported(tmp_path), tmp_path)
    assert list(runs) == ["fairseq", "fp32", "int8"]
    lines = (tmp_path / "text.de").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1500 and (tmp_path / "data" / "test.en-de.de.bin").exists()
    assert runs["int8"]().stdout.count(b"\n") == 1500
