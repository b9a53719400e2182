"""The example of parallel decoding, on a tiny checkpoint, with some of its methods."""

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """``examples/jacobi/run.py`` as a module, with the modules of ``examples/en_de`` beside it."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLES / "en_de"), *sys.path])
    spec = importlib.util.spec_from_file_location("jacobi_example", EXAMPLES / "jacobi" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("run", "table", "distill"):
        sys.modules.pop(name, None)


def test_the_table(example, corpus, baseline, tmp_path, monkeypatch, capsys):
    some = ("fairseq --beam 1", "greedy", "lookahead")
    monkeypatch.setattr(example, "METHODS", {name: example.METHODS[name] for name in some})
    arguments = [
        corpus,
        "--path",
        baseline,
        "--batch-size",
        8,
        "--rounds",
        1,
        "--workdir",
        tmp_path,
    ]
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, arguments)])
    example.main()
    table = (tmp_path / "table.md").read_text()
    assert table in capsys.readouterr().out
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert [line[0] for line in lines] == ["| method", *(f"| {name}" for name in some)]
    iterations, same = lines[0].index("iterations"), len(lines[0]) - 1
    assert [line[iterations] for line in lines[1:3]] == ["1.00x", "1.00x"]
    assert float(lines[3][iterations][:-1]) > 1
    assert all(line[same] == "29 of 29 |" for line in lines[1:])


def test_data_without_a_checkpoint(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "data-bin"])
    with pytest.raises(SystemExit):
        example.main()
    assert "give both data and --path, or neither" in capsys.readouterr().err
