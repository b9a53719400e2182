"""``--decoding auto`` and ``--proposal-tree auto``: greedy's output, in fewer invocations."""

import argparse

import pytest
import torch

from fairseq_fastdec.generators import build_generator
from fairseq_fastdec.generators.options import DecodingOptions
from fairseq_fastdec.generators.single import adaptive, experience, trials
from tests.support import tiny
from tests.support.blockwise import MAX_LEN, constant_model, in_fp64
from tests.support.trained_models import TASK, blockwise_model, stock_model

SAMPLES = [
    tiny.random_batch(TASK, lengths, seed=seed)
    for seed, lengths in enumerate([[1, 4, 8, 9], [12], [0, 7], [3], [10, 11], [5, 6, 7, 8, 9, 2]])
]


@pytest.fixture(autouse=True)
def own_experience(monkeypatch):
    """Experience is kept with the model, which other tests use, too; and trials come soon."""
    monkeypatch.setattr(adaptive, "experience_of", lambda models, kind: experience.Experience())
    for module, name, value in (
        (experience, "FIRST", 4), (adaptive, "FIRST", 4),
        (trials, "LEAST_REST", 3), (trials, "LOST_BY_ROOT", 1e3),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def generator_for(models, decoding, **options):
    args = argparse.Namespace(beam=1, max_len_b=MAX_LEN)
    return build_generator(
        models, TASK.target_dictionary, args, DecodingOptions(decoding=decoding, **options)
    )


def outputs(generator, samples, prefix=None):
    return [
        (own[0]["tokens"].tolist(), own[0]["positional_scores"])
        for sample in samples
        for own in generator.generate([], sample, prefix_tokens=prefix)
    ]


def assert_same_outputs(ours, theirs):
    assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs]
    for (_, own), (_, other) in zip(ours, theirs):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)


METHODS = {
    "auto": dict(decoding="auto"),
    "trees": dict(decoding="blockwise", proposal_tree="auto"),
    "fewer heads": dict(decoding="auto", decoding_block_size=2),
    "p_1 alone": dict(decoding="blockwise", proposal_tree="auto", decoding_block_size=1),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("members", [1, 2])
def test_greedys_output(method, members):
    models = [blockwise_model(seed=0), blockwise_model(seed=1)][:members]
    ours = generator_for(models, **METHODS[method])
    greedy = generator_for(models, "greedy")
    for _ in range(3):
        assert_same_outputs(outputs(ours, SAMPLES), outputs(greedy, SAMPLES))
    assert ours.statistics.row_invocations <= ours.statistics.tokens
    assert ours._search.summary()


def test_a_stock_model_has_drafts_alone():
    ours, greedy = (generator_for([stock_model()], name) for name in ("auto", "greedy"))
    for _ in range(3):
        assert_same_outputs(outputs(ours, SAMPLES), outputs(greedy, SAMPLES))
    assert "for heads" not in ours._search.summary()


def test_in_fp64_and_behind_prefixes():
    model = in_fp64(blockwise_model())
    prefix = torch.tensor([[7, 8], [9, 1], [6, 6], [5, 1]])
    ours, greedy = (generator_for([model], name) for name in ("auto", "greedy"))
    for _ in range(3):
        assert_same_outputs(
            outputs(ours, SAMPLES[:1], prefix), outputs(greedy, SAMPLES[:1], prefix)
        )


def test_heads_that_are_always_right_are_used(monkeypatch):
    """Time stands still but for steps, whose tokens cost nothing: four tokens a step are best."""
    generator = generator_for([constant_model(4)], "blockwise", proposal_tree="auto")
    clock = iter(range(10**6))
    monkeypatch.setattr(adaptive, "perf_counter", lambda: float(next(clock)))
    for _ in range(12):
        outputs(generator, SAMPLES[:1])
    before = generator.statistics.row_invocations, generator.statistics.tokens
    for _ in range(4):
        outputs(generator, SAMPLES[:1])
    invocations = generator.statistics.row_invocations - before[0]
    assert (generator.statistics.tokens - before[1]) / invocations > 2.0
    assert "heads verified in" in generator._search.searches[0].summary()


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_where_no_proposal_fits_any_more(method, length):
    args = argparse.Namespace(beam=1, max_len_b=length, min_len=length)
    options = DecodingOptions(**METHODS[method])
    generator = build_generator([constant_model(4)], TASK.target_dictionary, args, options)
    for _ in range(30):
        assert all(len(tokens) == length + 1 for tokens, _ in outputs(generator, SAMPLES[:2]))


def test_too_many_heads_are_refused():
    with pytest.raises(ValueError, match="--decoding-block-size 9"):
        generator_for([blockwise_model()], "auto", decoding_block_size=9)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decoding="blockwise", proposal_tree="few"), "--proposal-tree few: must be a whole"),
        (dict(decoding="lookahead", lookahead_window=0), "--lookahead-window 0: must be at least"),
        (dict(decoding="lookahead", lookahead_window="-1"), "--lookahead-window -1: must be at"),
        (
            dict(decoding="lookahead", lookahead_window=1.5),
            "--lookahead-window 1.5: must be",
        ),
        (dict(decoding="auto", acceptance="topk"), "--acceptance topk: means nothing"),
        (dict(decoding="auto", proposal_tree="auto"), "--proposal-tree auto: means nothing"),
        (
            dict(decoding="blockwise", proposal_tree="auto", min_block_size=2),
            "--min-block-size 2: of a tree",
        ),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**options).check()


@pytest.mark.parametrize("text", ["7", "auto"])
def test_numbers_arrive_as_text(text):
    options = DecodingOptions(decoding="lookahead", lookahead_window=text)
    options.check()
    assert options.lookahead_window == (7 if text == "7" else "auto")
