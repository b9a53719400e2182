"""Transformer base beside fairseq: heads that are right, an ensemble, the table."""

import pytest

from benchmarks.compare.methods import check_methods
from examples.engine import base as example
from tests.support import small_base


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The example's directory, with tiny networks."""
    work = tmp_path_factory.mktemp("a base")
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_base.use(monkeypatch)
        # Below the tiny network's size.
        monkeypatch.setitem(example.HEADS["low-rank sequential"], "block_output_rank", 8)
        example.prepare(work)
    return work


def methods_of(work, part):
    words = example.benchmark_command(work, part, 1, 1)
    _, settings, methods = small_base.parsed(words)
    return settings, {method.name: method for method in methods}


@pytest.mark.parametrize("part", example.PARTS)
def test_the_methods_are_possible(prepared, part):
    settings, methods = methods_of(prepared, part)
    check_methods(settings, tuple(methods.values()))


@pytest.mark.parametrize("heads", example.HEADS)
def test_all_that_heads_propose_is_accepted(prepared, heads):
    settings, methods = methods_of(prepared, "blocks")
    translations, _ = small_base.decode(settings, methods[example.FAIRSEQ], prepared)
    assert {tuple(set(own.text.split())) for own in translations} == {("w46",)}  # the same word
    for k in example.BLOCK_SIZES:
        method = methods[f"{heads} heads, k = {k}, fp32"]
        found, worker = small_base.decode(settings, method, prepared)
        assert found == translations
        # 31 tokens: one of the first step, which has no proposals yet, and k of each other.
        per_invocation = worker.decode(1).row_invocations / small_base.N_SENTENCES
        assert per_invocation == 1 + -(-30 // k)


def test_an_ensemble_of_different_models(prepared):
    settings, methods = methods_of(prepared, "ensemble")
    theirs, worker = small_base.decode(settings, methods[example.FAIRSEQ], prepared)
    assert len(worker.runner.models) == 2
    ours, _ = small_base.decode(settings, methods["beam 5, fp32"], prepared)
    assert ours == theirs
    first, second = (dict(model.named_parameters()) for model in worker.runner.models)
    assert any((first[name] != second[name]).any() for name in first)


def test_the_table():
    part = example.PARTS["ensemble"]._replace(methods={"greedy": ("", None), "b": ("", None)})

    def row(method, *seconds):
        return {"method": method, "seconds": seconds, "tokens_per_invocation": 2.0}

    results = [
        row("fairseq", 8.0, 16.0, 8.0),
        row("greedy, fp32", 4.0, 4.0, 4.0), row("greedy, int8", 2.0, 2.0, 2.0),
        row("b, fp32", 2.0, 1.0, 2.0), row("b, int8", 1.0, 1.0, 1.0),
    ]  # fmt: skip
    title, _, _, _, *lines = example.table(part, {"results": results}).splitlines()
    assert title == part.title
    assert lines[2] == "| b, fp32 | 2.00 | 4.00x (4.00 to 16.00) | 2.00x (2.00 to 4.00) |"
    assert lines[3] == "| b, int8 | 2.00 | 8.00x (8.00 to 16.00) | 2.00x (2.00 to 2.00) |"
