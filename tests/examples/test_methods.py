"""The tables of docs/performance.md that a command writes."""

import argparse
import json
import sys

import pytest
import torch
from fairseq.data import indexed_dataset

from benchmarks.compare.methods import check_methods
from examples.common.model_text import write_test_set
from examples.engine import methods
from tests.support import skips, small_base

GREEDY = {"bundled": "greedy", "base": "greedy, fp32"}
MARKS = "before\n<!-- base -->\nold\n<!-- end of base -->\nbehind\n"


def canned(command, output):
    """A benchmark in which fairseq takes two seconds, and everything else one."""
    words = [str(word) for word in command]
    names = [
        value.split(":")[0]
        for option, value in zip(words, words[1:])
        if option == "--method" and not value.startswith("CTranslate2")
    ]
    assert words[words.index("--sentences") + 1] in ("6", "32")
    assert all(f"{name}: " in " ".join(words) for name in methods.FAIRSEQ)
    return {
        "results": [
            {
                "method": name,
                "bleu": 1.0,
                "tokens_per_invocation": 1.5,
                "seconds": [2.0, 2.0] if name.startswith("fairseq") else [1.0, 0.5],
                "sentences": 6,
                "memory": 1.0,
            }
            for name in names
        ]
    }


def test_figures_and_tables_are_written(tmp_path, monkeypatch):
    page, figures = tmp_path / "page.md", tmp_path / "figures" / "methods.json"
    page.write_text(MARKS, encoding="utf-8")
    monkeypatch.setattr(methods, "PAGE", page)
    monkeypatch.setattr(methods, "FIGURES", figures)
    monkeypatch.setattr(methods.commands, "run_benchmark", canned)
    model = methods.MODELS["base"]._replace(prepare=lambda work: None)
    monkeypatch.setitem(methods.MODELS, "base", model)
    arguments = ["--machine", "Z", "--models", "base", "--workdir", str(tmp_path / "work")]
    monkeypatch.setattr(sys, "argv", ["methods.py", *arguments, "--threads", "3"])
    methods.main()
    written = json.loads(figures.read_text(encoding="utf-8"))
    assert written["base"]["machine"] == "Z" and set(written["base"]["batches"]) == {"1", "32"}
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- base -->\n## Transformer base\n") and "old" not in text
    assert "| greedy, int8 | 1.50 | 3.00x (2.00 to 4.00) | 3.00x (2.00 to 4.00) |" in text
    # A method that could not run has no figures.
    assert "| CTranslate2, beam 1 |  |  |  |" in text
    assert methods.with_tables(text, written) == text


def test_the_page_has_the_tables_of_the_figures():
    page = methods.PAGE.read_text(encoding="utf-8")
    figures = json.loads(methods.FIGURES.read_text(encoding="utf-8"))
    assert set(figures) == set(methods.MODELS)
    assert methods.with_tables(page, figures) == page


def prepared(name, work):
    """The settings and methods of ``benchmarks.compare`` for two sentences of a prepared model."""
    work.mkdir()
    model = methods.MODELS[name]._replace(sentences={1: 2, 32: 2})
    model.prepare(work)
    arguments = argparse.Namespace(rounds=1, threads=2)
    _, settings, parsed = small_base.parsed(methods.benchmark_command(work, model, 1, arguments))
    return settings, {method.name: method for method in parsed}


@pytest.fixture(params=["bundled", "base"])
def model(request, tmp_path, monkeypatch):
    small_base.use(monkeypatch)
    return request.param, tmp_path / "work", *prepared(request.param, tmp_path / "work")


def decode(settings, method, work):
    return [translation.text for translation in small_base.decode(settings, method, work)[0]]


def test_the_models(model):
    name, work, settings, of_names = model
    check_methods(settings, list(of_names.values()))
    texts = decode(settings, of_names[GREEDY[name]], work)
    state = torch.load(work / "checkpoint.pt", weights_only=True)
    if name == "bundled":
        assert len(texts) == 2 and not any("@@" in text for text in texts)
        assert {value.dtype for value in state["model"].values()} == {torch.float32}
        assert not any("heads" in key for key in state["model"])
    else:
        assert [len(text.split()) for text in texts] == [30, 30]
        assert [len(text.split()) for text in decode(settings, of_names["beam 5, fp32"], work)] == (
            [30, 30]
        )


@pytest.mark.parametrize("name", ["large", "repeated"])
def test_the_large_models_translate_like_the_bundled_one(name, tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "FACTOR", 2)
    monkeypatch.setattr(methods, "DECODER_LAYERS", 3)
    monkeypatch.setattr(methods, "N_REPEATED", 2)
    settings, of_names = prepared(name, tmp_path / "large")
    check_methods(settings, list(of_names.values()))
    expected, bundled = prepared("bundled", tmp_path / "bundled")
    texts = decode(settings, of_names["lookahead"], tmp_path)
    assert texts == decode(expected, bundled["greedy"], tmp_path)
    state = torch.load(tmp_path / "large" / "checkpoint.pt", weights_only=True)["model"]
    assert state["decoder.layers.2.fc1.weight"].shape == (1024, 512)


def test_the_text_repeats(tmp_path):
    write_test_set(tmp_path / "data", methods.MODEL, repeat=2, n_sentences=3)
    data = indexed_dataset.make_dataset(f"{tmp_path}/data/test.en-de.en", "mmap")
    assert [list(data[i]) for i in range(3)] == [list(data[i]) for i in range(3, 6)]
    assert len(data) == 6


def test_ctranslate2_converts_them(model):
    skips.needs("ctranslate2")
    name, work, settings, of_names = model
    ours, theirs = (
        decode(settings, of_names[method], work) for method in (GREEDY[name], "CTranslate2, beam 1")
    )
    assert ours == theirs
