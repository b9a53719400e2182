"""Specs of methods, and what a benchmark cannot do."""

import pytest

from fairseq_fastdec.benchmark.methods import (
    DEFAULT_METHODS,
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


@pytest.mark.parametrize(
    "spec, message",
    [
        ("greedy", "write a name, a colon"),
        (": --beam 1", "write a name, a colon"),
        ("greedy:", "write a name, a colon"),
        ("x: --engine marian", "invalid choice: 'marian'"),
        ("x: --beam 1 --compute-type int8", "use --dtype"),
        ("x: --path 'open", "No closing quotation"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(ValueError, match=f"--method .*{message}"):
        Method.parse(spec)


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
        (["a: --beam 1", "a: --beam 2"], "'a': two methods of this name"),
        (["a: --beam 1", "b: --max-tokens 100"], "'b': .* outside --method"),
        (["b: --batch-size 2"], "'b': --batch-size: .* outside --method"),
        (["b: --gen-subset valid"], "'b': .* outside --method"),
    ],
)
def test_methods_must_go_together(settings, specs, message):
    with pytest.raises(ValueError, match=message):
        check(settings(), *specs)


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
