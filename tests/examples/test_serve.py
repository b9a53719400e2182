"""The load generator, and the configuration beside it."""

import json
from pathlib import Path

import pytest

from examples.serve import load as example
from fairseq_fastdec.serving import config
from tests.support.services import UpperCase, running

FOLDER = Path(example.__file__).parent


def test_a_server_under_load(tmp_path, capsys):
    with running(UpperCase(seconds=0.01)) as port:
        example.main([
            f"http://127.0.0.1:{port}", "--rates", "20", "50", "--seconds", "0.5",
            "--json", str(tmp_path / "load.json"), "--plot", str(tmp_path / "load.png"),
        ])  # fmt: skip
    results = json.loads((tmp_path / "load.json").read_text("utf-8"))
    assert [result["rate"] for result in results] == [20, 50]
    for result in results:
        assert result["requests"] > 3 and result["failed"] == 0
        assert 10 <= result["p50"] <= result["p95"] <= result["p99"]
    assert (tmp_path / "load.png").stat().st_size > 1000
    assert "| 20 | " in capsys.readouterr().out


def test_failures_are_counted(capsys):
    with running() as port:
        example.main([f"http://127.0.0.1:{port}", "--rates=40", "--seconds=0.3", "--target=fr"])
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert row[1] == row[2] != "0" and row[4] == "nan"


@pytest.mark.parametrize("part, expected", [(0.5, 2), (0.95, 4), (0.0, 1), (1.0, 4)])
def test_quantiles(part, expected):
    assert example.quantile([3, 1, 4, 2], part) == expected


def test_the_configuration():
    (model,) = config.read(str(FOLDER / "serve.toml")).models
    assert Path(model.path).is_dir()
