"""The comparison with CTranslate2: its models, its command, its table."""

import json

import pytest
import torch

from examples.engine import beside_ctranslate2 as example
from fairseq_fastdec.tools.benchmark.methods import check_methods
from tests.support import skips, small_base


@pytest.fixture()
def base_is_small(monkeypatch):
    small_base.use(monkeypatch)


def settings_of(work, name, sentences=2):
    """What scripts/benchmark.py makes of the example's command."""
    words = example.benchmark_command(work, example.MODELS[name].options, sentences, 1, 2)
    return small_base.parsed(words)


def test_both_precisions_searches_and_engines_in_their_best_settings(tmp_path):
    example.prepare_small(tmp_path)
    args, settings, methods = settings_of(tmp_path, "small")
    check_methods(settings, methods)
    assert len(methods) == 8 and args.batch_sizes == [1, 32]
    for method in methods:
        divisions = [str(division) for division in method.divisions(settings)]
        assert divisions == ["1 x 2", "2 x 1"]


def decode(settings, method, work):
    return [translation.text for translation in small_base.decode(settings, method, work)[0]]


def test_the_model_that_comes_along_as_a_stock_transformer(tmp_path):
    example.prepare_small(tmp_path)
    _, settings, methods = settings_of(tmp_path, "small")
    texts = decode(settings, methods[0], tmp_path)
    assert len(texts) == 2 and not any("@@" in text for text in texts)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert {value.dtype for value in state["model"].values()} == {torch.float32}
    assert not any("heads" in name for name in state["model"])


def test_random_weights_decode_to_the_same_length(base_is_small, tmp_path):
    example.prepare_base(tmp_path)
    _, settings, methods = settings_of(tmp_path, "base")
    for method in (methods[0], methods[4]):  # greedy and beam 5
        texts = decode(settings, method, tmp_path)
        assert [len(text.split()) for text in texts] == [30, 30]


def test_ctranslate2_converts_both_models(base_is_small, tmp_path):
    skips.needs("ctranslate2")
    for name in ("small", "base"):
        work = tmp_path / name
        work.mkdir()
        example.MODELS[name].prepare(work)
        _, settings, methods = settings_of(work, name)
        assert methods[1].name == "CTranslate2, greedy, fp32"
        ours, theirs = (decode(settings, method, work) for method in methods[:2])
        assert ours == theirs


def row(method, batch_size, seconds, division):
    return {"method": method, "batch_size": batch_size, "seconds": seconds, "division": division}


def test_the_table():
    results = [
        row("ours, greedy, fp32", 1, [2.0, 3.0, 9.0], "1 x 2"),
        row("CTranslate2, greedy, fp32", 1, [1.0, 2.0, 3.0], "2 x 1"),
        row("ours, beam 5, int8", 32, [1.0, 1.0, 1.0], "2 x 1"),
        row("CTranslate2, beam 5, int8", 32, [2.0, 2.0, 2.0], "2 x 1"),
        row("ours, beam 5, fp32", 32, [1.0, 1.0, 1.0], "2 x 1"),
    ]
    document = {
        "results": [{**own, "sentences": 7} for own in results],
        "settings": {"threads": 2},
        "processor": "a processor",
        "left_out": {"CTranslate2, beam 5, fp32": "no luck"},
    }
    title, _, *lines = example.table("A model", json.loads(json.dumps(document))).splitlines()
    assert title.startswith("A model; 7 sentences, 2 threads of a processor, medians of 3")
    assert lines[2:] == [
        "| greedy, batch 1, fp32 | 3.00 (1 x 2) | 2.00 (2 x 1) | 2.00 | CTranslate2 |",
        "| beam 5, batch 32, int8 | 1.00 (2 x 1) | 2.00 (2 x 1) | 0.50 | ours |",
    ]
    document["results"] = document["results"][-1:]
    with pytest.raises(SystemExit, match="nothing to compare: .*no luck"):
        example.table("A model", document)
