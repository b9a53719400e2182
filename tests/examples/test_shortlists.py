"""The comparison of greedy decoding with and without shortlists."""

import json
import os
import sys

import pytest

from benchmarks.compare.methods import check_methods
from examples.common import en_de
from examples.engine import shortlists as example
from examples.engine.methods import MODELS, comparison, prepare
from tests.support import firefox_models, small_base

MARKS = "<!-- shortlists -->\nold\n<!-- end of shortlists -->\n"


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A base of few types, with its sentences and table."""
    small_base.use(monkeypatch)
    work = tmp_path / "work" / "base_shortlists"
    prepare(work, MODELS["base"]._replace(prepare=example.prepare_random))
    return work


def test_the_methods_translate(base):
    class Args:
        rounds, threads = 1, 1

    options = comparison(base, MODELS["base"], 1, Args)
    of_names = example.methods_of(base, "base", "fp32")
    command = example.commands.benchmark(options, of_names, base)
    _, settings, methods = small_base.parsed(command)
    check_methods(settings, methods)
    assert [method.name for method in methods] == list(of_names)
    for method in methods:
        texts, _ = small_base.decode(settings, method, base)
        assert [len(text.tokens.split()) for text in texts] == [30] * len(texts)


def test_the_table_of_the_bundled_model_is_learned(tmp_path, monkeypatch):
    lines = en_de.training_lines
    monkeypatch.setattr(en_de, "training_lines", lambda own: lines(own)[:300])
    example.prepare_learned(tmp_path)
    table = (tmp_path / example.TABLE).read_text(encoding="utf-8")
    best = {}
    for line in table.splitlines():
        target, source, _ = line.split()
        best.setdefault(source, target)
    assert best["and"] == "und"
    few, more = (example.n_types(tmp_path, best) for best in (1, 30))
    assert 0 < few < more < 4120


def test_figures_and_the_table_are_written(base, tmp_path, monkeypatch):
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(MARKS, encoding="utf-8")

    def canned(command, output):
        names = [str(word).partition(":")[0] for word in command if ": --decoding" in str(word)]
        of_all = {"sentences": 6, "bleu": 1.0, "seconds": [3.0, 4.5, 3.0]}
        of_table = {"sentences": 6, "identical": 5, "bleu": 2.0, "seconds": [2.0, 2.0, 2.0]}
        own = [of_all, of_table, of_table]
        return {"results": [{"method": name, **one} for name, one in zip(names, own)]}

    monkeypatch.setattr(example, "PAGE", page)
    monkeypatch.setattr(example, "FIGURES", figures)
    monkeypatch.setattr(example.commands, "run_benchmark", canned)
    words = ["--machine", "Z", "--workdir", str(base.parent), "--models", "base"]
    monkeypatch.setattr(sys, "argv", ["shortlists.py", *words])
    example.main()
    written = json.loads(figures.read_text(encoding="utf-8"))["base"]
    assert written["machine"] == "Z" and len(written["rows"]) == 4
    text = page.read_text(encoding="utf-8")
    types = f"{example.n_types(base, 10):,.0f}"
    assert f"| base | int8 | `--shortlist-best 10` | {types} |  |  | 1.50x" in text
    assert "old" not in text


def test_the_model_of_firefox(monkeypatch):
    firefox_models.directory("enpt")
    monkeypatch.setattr(example, "N_SENTENCES", 3)
    monkeypatch.setattr(example, "PRECISIONS", ("fp32",))
    monkeypatch.setattr(example, "BATCH_SIZES", (2,))

    class Args:
        rounds, threads = 2, 1

    usable = os.sched_getaffinity(0)
    found = example.of_firefox(example.FIREFOX, Args)
    assert os.sched_getaffinity(0) == usable
    assert 50 < found["types"][example.ITS_OWN] < 3200
    ((with_all, with_its),) = (row["methods"].values() for row in found["rows"])
    assert len(with_all["seconds"]) == len(with_its["seconds"]) == 2
    assert with_all["identical"] == 3 and with_its["sentences"] == 3


def test_the_page_has_the_table_of_the_figures():
    figures = json.loads(example.FIGURES.read_text(encoding="utf-8"))
    assert example.section(figures) in example.PAGE.read_text(encoding="utf-8")


def test_bleu_of_a_trained_model_stands_beside_that_without():
    result = {"sentences": 9, "identical": 8, "bleu": 30.0, "seconds": [1.0]}
    of_methods = {example.ALL: {**result, "bleu": 31.0}, "`--shortlist-best 30`": result}
    row = {"precision": "fp32", "batch_size": 1, "methods": of_methods}
    figure = dict.fromkeys(("date", "machine", "commit", "threads"), "")
    figure |= {"types": {"`--shortlist-best 30`": 1234.5}, "rows": [row]}
    assert (
        "| bundled | fp32 | `--shortlist-best 30` | 1,234 | 30.00 (31.00) | 8 of 9 | 1.00x "
    ) in example.section({"bundled": figure})
