"""``--decoding auto``: greedy's output, by the method that is fastest."""

import argparse
import math

import pytest
import torch

from fairseq_fastdec.decoding import auto, build_generator
from fairseq_fastdec.decoding.auto import (
    ENOUGH_TOKENS,
    FIRST_REST,
    N_REMEMBERED,
    MethodTimes,
)
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.engine.kernels.loading import library
from tests.support import skips, tiny
from tests.support.blockwise import MAX_LEN, constant_model, in_fp64
from tests.support.trained_models import TASK, blockwise_model, stock_model

SAMPLES = [
    tiny.random_batch(TASK, lengths, seed=seed)
    for seed, lengths in enumerate([[1, 4, 8, 9], [12], [0, 7], [3], [10, 11], [5, 6, 7, 8, 9, 2]])
]


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
    "fewer heads": dict(decoding="auto", decoding_block_size=2),
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
    assert list(ours.methods) == ["greedy", "lookahead", "blockwise"]
    assert ours.statistics.sentences == 3 * sum(len(sample["id"]) for sample in SAMPLES)


def test_a_stock_model_has_drafts_alone():
    ours, greedy = (generator_for([stock_model()], name) for name in ("auto", "greedy"))
    for _ in range(3):
        assert_same_outputs(outputs(ours, SAMPLES), outputs(greedy, SAMPLES))
    assert list(ours.methods) == ["greedy", "lookahead"]


def test_in_fp64_and_behind_prefixes():
    model = in_fp64(blockwise_model())
    prefix = torch.tensor([[7, 8], [9, 1], [6, 6], [5, 1]])
    ours, greedy = (generator_for([model], name) for name in ("auto", "greedy"))
    for _ in range(3):
        assert_same_outputs(
            outputs(ours, SAMPLES[:1], prefix), outputs(greedy, SAMPLES[:1], prefix)
        )


def test_the_fastest_method_decodes_most_batches(monkeypatch):
    """Time stands still, but for invocations: heads that are always right take the fewest."""
    generator = generator_for([constant_model(4)], "auto")
    counts = generator.statistics
    monkeypatch.setattr(auto, "perf_counter", lambda: float(counts.decoder_invocations))
    outputs(generator, SAMPLES[:1])
    (times,) = generator._times.values()
    while math.inf in times.medians():
        outputs(generator, SAMPLES[:1])
    before = counts.row_invocations, counts.tokens
    for _ in range(4):
        outputs(generator, SAMPLES[:1])
    assert (counts.tokens - before[1]) / (counts.row_invocations - before[0]) > 2.0


@pytest.mark.skipif(library() is None, reason=skips.COMPILER)
def test_the_first_batch_prepares_the_weights_of_all_methods():
    """Worker processes are forked after it, and share them."""
    generator = generator_for([blockwise_model()], "auto")
    outputs(generator, SAMPLES[1:2])
    assert all(method._engine._made for method in generator.methods.values())


# Of batches of four to a measurement, and one before them that does not count.
N_OF_TRIAL = 5


def choices(times, n, seconds, n_tokens=ENOUGH_TOKENS // 4):
    """The methods that decode n batches, whose tokens take ``seconds(number, n before)``."""
    chosen = []
    for _ in range(n):
        number = times.choose()
        times.learn(n_tokens * seconds(number, len(chosen)), n_tokens)
        chosen.append(number)
    return chosen


@pytest.mark.parametrize("fastest", [0, 1, 2])
def test_trials_become_rare(fastest):
    chosen = choices(MethodTimes(3), 4000, lambda number, _: 0.5 if number == fastest else 1.0)
    first = [number for number in range(3) for _ in range(N_OF_TRIAL)]
    assert chosen[: 3 * N_OF_TRIAL] == first
    assert chosen[3 * N_OF_TRIAL : FIRST_REST] == [fastest] * (FIRST_REST - 3 * N_OF_TRIAL)
    others = [number for number in chosen if number != fastest]
    assert len(others) == 2 * N_OF_TRIAL * (1 + math.floor(math.log2(1 + 4000 / FIRST_REST)))


def test_the_first_batch_of_a_trial_does_not_count():
    times = MethodTimes(2)
    choices(times, 2 * N_OF_TRIAL, lambda number, n: 100.0 if n % N_OF_TRIAL == 0 else 1.0 + number)
    assert times.medians() == [1.0, 2.0]


def test_one_large_batch_is_a_trial():
    chosen = choices(MethodTimes(2), 6, lambda number, _: 2.0 - number, ENOUGH_TOKENS)
    assert chosen == [0, 1, 1, 1, 1, 1]


def test_a_method_that_becomes_slower_is_replaced():
    times = MethodTimes(2)
    choices(times, 50, lambda number, _: 1.0 + number, ENOUGH_TOKENS)
    later = choices(times, 20, lambda number, _: 3.0 - number, ENOUGH_TOKENS)
    assert later[N_REMEMBERED // 2 + 1 :] == [1] * (20 - N_REMEMBERED // 2 - 1)


def test_batches_without_tokens_say_nothing():
    times = MethodTimes(1)
    for _ in range(2):
        times.choose()
        times.learn(1.0, 0)
    assert times.medians() == [math.inf] and times.fastest == 0


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
        (dict(decoding="lookahead", lookahead_window=1.5), "--lookahead-window 1.5: must be"),
        (dict(decoding="auto", acceptance="topk"), "--acceptance topk: does not apply to"),
        (dict(decoding="auto", proposal_tree=3), "--proposal-tree 3: does not apply to"),
        (
            dict(decoding="blockwise", proposal_tree=3, min_block_size=2),
            "--min-block-size 2: cannot be combined with --proposal-tree",
        ),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**options).check()
