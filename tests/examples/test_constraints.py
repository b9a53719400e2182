"""The example that measures what constraints cost."""

import json

from examples.engine import constraints as example


def test_a_few_sentences(tmp_path, monkeypatch, capsys):
    path = tmp_path / "figures.json"
    arguments = ["--sentences", "3", "--rounds", "1", "--output", str(path)]
    monkeypatch.setattr("sys.argv", ["constraints.py", *arguments])
    example.main()
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(row["precision"], row["batch size"]) for row in rows] == [
        (precision, size) for precision in ("fp32", "int8") for size in ("1", "32")
    ]
    printed = capsys.readouterr().out
    assert all(float(row["time"].split()[0]) > 0 and row["time"] in printed for row in rows)
