"""The table of docs/performance.md that compares instruction sets."""

import argparse
import json
import os
import sys

import pytest

from benchmarks.compare.methods import check_methods
from examples.engine import instruction_sets as example
from fairseq_fastdec.engine.kernels import loading
from tests.support import skips, small_base
from tests.support.compiled import compiled

MARKS = "<!-- instruction_sets -->\nold\n<!-- end of instruction_sets -->\n"


@compiled
@pytest.mark.skipif(
    loading.library() is None or "avx2" not in loading.library().instruction_sets(),
    reason=skips.AVX2,
)
def test_figures_and_the_table_are_written(tmp_path, monkeypatch):
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(MARKS, encoding="utf-8")
    limits = []

    def canned(command, output):
        limits.append([os.environ[name] for name in (loading.ISA, *example.VARIABLES)])
        names = [word.partition(":")[0] for word in map(str, command) if word[:3] in ("our", "CTr")]
        return {
            "results": [
                {"method": name, "seconds": [3.0, 4.5] if name[0] == "C" else [2.0, 2.0]}
                for name in names
            ]
        }

    monkeypatch.setattr(example, "PAGE", page)
    monkeypatch.setattr(example, "FIGURES", figures)
    monkeypatch.setattr(example.commands, "run_benchmark", canned)
    for name in example.NAMES:
        model = example.MODELS[name]._replace(prepare=lambda work: None)
        monkeypatch.setitem(example.MODELS, name, model)
    words = ["--machine", "Z", "--instruction-sets", "avx2", "--workdir", str(tmp_path / "work")]
    for name in example.NAMES:  # the second model is added to the first
        monkeypatch.setattr(sys, "argv", ["instruction_sets.py", *words, "--models", name])
        example.main()
    assert limits == [["avx2", "AVX2", "AVX2", "AVX2"]] * 4
    written = json.loads(figures.read_text(encoding="utf-8"))
    assert [len(figure["rows"]) for figure in written["avx2"].values()] == [4] * 4
    text = page.read_text(encoding="utf-8")
    assert "| model | precision | beam | batch | `avx2` |" in text and "old" not in text
    assert "| base | int8 | 5 | 32 | 1.88x |" in text
    # Another machine adds a column.
    both = example.section({"avx512": written["avx2"], **written})
    assert "| base | int8 | 5 | 32 | 1.88x | 1.88x |" in both
    # Its column is empty where only some rows have been measured.
    some = dict([*written["avx2"].items()][:1])
    both = example.section({**written, "avx512": some})
    assert "| bundled | int8 | 5 | 1 | 1.88x | 1.88x |" in both
    assert "| base | int8 | 5 | 32 | 1.88x |  |" in both


def test_the_page_has_the_table_of_the_figures():
    figures = json.loads(example.FIGURES.read_text(encoding="utf-8"))
    assert example.section(figures) in example.PAGE.read_text(encoding="utf-8")


def test_the_methods_exist(tmp_path, monkeypatch):
    small_base.use(monkeypatch)
    (tmp_path / "base").mkdir()
    example.MODELS["base"].prepare(tmp_path / "base")
    args = argparse.Namespace(workdir=tmp_path, rounds=1, threads=2)
    _, settings, methods = small_base.parsed(example.command_of("base", 1, args))
    check_methods(settings, methods)
    assert len(methods) == 8
