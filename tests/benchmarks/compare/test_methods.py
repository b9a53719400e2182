"""Specs of methods, and what a benchmark cannot do."""

import pytest

from benchmarks.compare.methods import (
    DEFAULT_METHODS,
    Division,
    Method,
    Settings,
    check_methods,
    configure,
)


@pytest.fixture()
def settings(corpus, baseline):
    def make(*options, **values):
        given = {"device": "cpu", "dtype": "fp32", "threads": 1, **values}
        return Settings((str(corpus), "--path", str(baseline), *options), **given)

    return make


def check(settings, *specs):
    check_methods(settings, tuple(Method.parse(spec) for spec in specs))


def test_a_spec_is_a_name_and_options():
    method = Method.parse("ours : --decoding beam --path 'my model.pt:b.pt'")
    assert method == Method("ours", ("--decoding", "beam", "--path", "my model.pt:b.pt"))
    peer = Method.parse("peer: --beam 4 --engine ctranslate2 --compute-type int8")
    assert peer == Method("peer", ("--beam", "4"), "ctranslate2", "int8")
    in_torch = Method.parse("x: --torch --beam 4")
    assert in_torch == Method("x", ("--beam", "4"), in_torch=True)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("greedy", "give a name, a colon"),
        (": --beam 1", "give a name, a colon"),
        ("greedy:", "give a name, a colon"),
        ("x: --engine marian", "invalid choice: 'marian'"),
        ("x: --beam 1 --compute-type int8", "use --dtype"),
        ("x: --torch --engine ctranslate2", "--torch is for --engine fairseq; remove it"),
        ("x: --path 'open", "No closing quotation"),
        ("x: --beam 1 --inter-threads 2", "--inter-threads is for .*; use --processes"),
        ("x: --engine ctranslate2 --processes 2", "--processes is for .*; use --inter-threads"),
        ("x: --beam 1 --processes 0", "at least 1, or best"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(ValueError, match=f"--method .*{message}"):
        Method.parse(spec)


OURS, PEER = "x: --beam 1", "x: --engine ctranslate2"


@pytest.mark.parametrize(
    "spec, threads, divisions",
    [
        (OURS, 1, ["1 x 1"]),
        (OURS, 2, ["1 x 2", "2 x 1"]),
        (OURS, 6, ["1 x 6", "3 x 2"]),  # no more than four models in memory
        (OURS, 16, ["1 x 16", "4 x 4"]),
        (PEER, 2, ["1 x 2", "2 x 1"]),
        (PEER, 16, ["1 x 16", "16 x 1"]),
        (OURS + " --processes 8", 8, ["8 x 1"]),
        (OURS + " --processes best", 2, ["1 x 2", "2 x 1"]),
        (PEER + " --inter-threads 2", 4, ["2 x 2"]),
        (PEER + " --inter-threads 1", 2, ["1 x 2"]),
    ],
)
def test_divisions_of_the_threads(spec, threads, divisions):
    settings = Settings(("data",), "cpu", "fp32", threads)
    found = Method.parse(spec).divisions(settings)
    assert [str(division) for division in found] == divisions
    assert all(d == Division(d.workers, threads // d.workers) for d in found)


def test_the_number_of_workers_for_all_methods_of_an_engine():
    everywhere = {"fairseq": 1, "ctranslate2": 2}
    assert Method.parse(OURS, everywhere).workers == 1
    assert Method.parse(PEER, everywhere).workers == 2
    assert Method.parse(PEER + " --inter-threads best", everywhere).workers == "best"


def test_numbers_of_workers_that_are_impossible(settings):
    with pytest.raises(ValueError, match="'x': --processes 2: does not divide --threads 3"):
        check(settings(threads=3), OURS + " --processes 2")
    on_a_gpu = settings(device="cuda", threads=2)
    with pytest.raises(
        ValueError, match="'x': --inter-threads 2: on a GPU a method has one worker"
    ):
        check(on_a_gpu, PEER + " --inter-threads 2")
    assert [str(d) for d in Method.parse(PEER).divisions(on_a_gpu)] == ["1 x 2"]


def test_the_default_methods_are_possible(settings):
    check(settings(), *DEFAULT_METHODS)


@pytest.mark.parametrize(
    "options, remedy",
    [
        (["--fp16"], "--fp16: .* --dtype fp16"),
        (["--cpu"], "--cpu: .* --device cpu"),
        (["--nbest", "2"], "--nbest"),
        (["--scoring", "sacrebleu"], "--scoring"),
        (["--results-path", "x"], "--results-path: .* --output"),
        (["--num-shards", "2"], "--num-shards: .* --sentences"),
        (["--score-reference"], "--score-reference"),
        (["--replace-unk"], "--replace-unk"),
        (["--lm-path", "x"], "--lm-path"),
        (["--print-alignment"], "--print-alignment"),
        (["--constraints"], "--constraints"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(settings, options, remedy):
    with pytest.raises(ValueError, match=remedy):
        configure(settings(*options))


@pytest.mark.parametrize(
    "specs, message",
    [
        (["a: --beam 1", "a: --beam 2"], "'a': two methods have this name"),
        (["a: --beam 1", "b: --max-tokens 100"], "'b': .* outside --method"),
        (["b: --batch-size 2"], "'b': --batch-size: .* outside --method"),
        (["b: --gen-subset valid"], "'b': .* outside --method"),
    ],
)
def test_methods_must_go_together(settings, specs, message):
    with pytest.raises(ValueError, match=message):
        check(settings(), *specs)


def test_operations_of_graphs_cannot_be_counted(settings):
    with pytest.raises(ValueError, match="--flops: .* use --device cpu"):
        check(settings(device="cuda", counts_flops=True), "a: --beam 1")


def test_a_path_for_all_or_for_each(corpus):
    settings = Settings((str(corpus),), "cpu", "fp32", 1)
    check(settings, "a: --path a.pt")
    with pytest.raises(ValueError, match="'b': --path"):
        check(settings, "a: --path a.pt", "b: --beam 1")


def test_unknown_options_name_their_method(settings, capsys):
    with pytest.raises(SystemExit):
        check(settings(), "mine: --no-such-option")
    assert "mine: error: unrecognized arguments: --no-such-option" in capsys.readouterr().err


def test_device_and_type(settings):
    cfg = configure(settings(device="cpu", dtype="fp16"))
    assert cfg.common.cpu and cfg.common.fp16
    cfg = configure(settings(device="cuda", dtype="bf16"))
    assert not cfg.common.cpu and not cfg.common.fp16
