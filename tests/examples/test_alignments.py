"""The example that measures what alignments cost."""

import json

from examples.engine import alignments as example


def test_a_few_sentences(tmp_path, monkeypatch, capsys):
    path = tmp_path / "figures.json"
    arguments = ["--sentences", "3", "--rounds", "1", "--output", str(path)]
    monkeypatch.setattr("sys.argv", ["alignments.py", *arguments])
    example.main()
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(row["search"], row["batch size"]) for row in rows] == [
        (search, size) for search in ("greedy", "beam 5") for size in ("1", "32")
    ]
    printed = capsys.readouterr().out
    for row in rows:
        assert float(row["hard"].split()[0]) > 0 and row["additional pass"] in printed
