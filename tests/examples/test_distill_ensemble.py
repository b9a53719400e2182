"""The example of a model taught by an ensemble: tiny models through all its stages."""

import sys
from dataclasses import replace

import pytest
import torch

from examples.common import en_de
from examples.common.training_text import read
from examples.en_de import demo, export, sequential_heads
from examples.en_de import distill_ensemble as example
from tests.support import command_line, example_in_process

KEPT = ("chain of 7",)


@pytest.fixture
def small(corpus, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    example_in_process.cross_letters(sequential_heads, monkeypatch)
    schedule = [*en_de.schedule(100, 3e-3, 5, 12), "--dropout", "0"]
    # Students of fewer updates do not know where to end.
    longer = [*en_de.schedule(400, 5e-3, 5, 40), "--dropout", "0"]
    monkeypatch.setattr(example, "TEACHER", longer)
    monkeypatch.setattr(example, "STUDENT", longer)
    # The tiny network's output layer has 32 inputs.
    heads = [*sequential_heads.TRAINING, *schedule, "--block-output-rank", "8"]
    monkeypatch.setattr(sequential_heads, "TRAINING", heads)
    methods = {name: sequential_heads.METHODS[name] for name in KEPT}
    monkeypatch.setattr(sequential_heads, "METHODS", methods)
    recipe = replace(en_de.BUNDLED, network=command_line.TINY)
    monkeypatch.setattr(en_de, "BUNDLED", recipe)
    return example_in_process.on_letters(corpus, monkeypatch, caplog, "train.en")


def test_all_stages(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["distill_ensemble.py", "--workdir", str(tmp_path)])
    example.main()
    assert small.count("fairseq-train") == 4 and small.count("fairseq-generate") == 1 + len(KEPT)
    first, second, student, heads = (
        torch.load(tmp_path / name, weights_only=True)["model"]
        for name in (
            "teacher_1/averaged.pt", "teacher_2/averaged.pt", "student/averaged.pt",
            "heads/checkpoint_last.pt",
        )
    )  # fmt: skip
    name = "decoder.layers.0.fc1.weight"
    assert (first[name] - student[name]).norm() < (second[name] - student[name]).norm()
    assert torch.equal(heads[name], student[name]) and "decoder.heads.token.weight" in heads
    own = set(read(tmp_path / "data/text/train.en"))
    taught, mixed = (read(tmp_path / f"{name}/text/train.en") for name in ("taught/data", "mixed"))
    crossed = [source for source in taught if source not in own]
    assert crossed and len(mixed) == 2 * len(taught) - len(crossed)
    assert (tmp_path / "table.md").read_text(encoding="utf-8") in capsys.readouterr().out + "\n"
    n_run = len(small)
    example.main()
    assert len(small) == n_run
    check_export(tmp_path, heads, monkeypatch)


def check_export(work, heads, monkeypatch):
    """The command that the example's docstring ends with makes a directory that the demo loads."""
    (work / "data" / "bpe.codes").write_text("#version: 0.2\na b</w>\n", encoding="utf-8")
    words = example.__doc__.split("\n    python ")[-1].split()
    assert words[:3] == ["examples/en_de/export.py", "work/en_de_distill_ensemble", "heads"]
    assert words[3:] == [en_de.MODEL.relative_to(en_de.commands.ROOT).as_posix()]
    places = [work, "heads", work / "exported"]
    monkeypatch.setattr(sys, "argv", ["export.py", *map(str, places)])
    export.main()
    assert {path.name for path in (work / "exported").iterdir()} == {
        "bpe.codes", "checkpoint.pt", "dict.de.txt", "dict.en.txt",
    }  # fmt: skip
    hub = demo.load(work / "exported")
    exported = hub.models[0].state_dict()
    assert all(torch.equal(exported[name], value.half().float()) for name, value in heads.items())


def test_it_learns_all_the_text_that_comes_along(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(en_de.commands, "run", ran.append)
    en_de.prepare(tmp_path, en_de.BUNDLED, example.TEXTS)
    words = [str(word) for word in ran[0]]
    texts = words[words.index("--train") + 1 : words.index("--valid")]
    assert texts == [str(en_de.EN_DE / "data" / name) for name in example.TEXTS]
    assert all(en_de.EN_DE.joinpath("data", f"{name}.en.xz").exists() for name in example.TEXTS)
