"""``--decoding auto``: greedy's output, with proposals while they save time."""

import argparse

import pytest
import torch

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.methods.blockwise import Blockwise
from fairseq_fastdec.decoding.methods.lookahead import Lookahead
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.blockwise import MAX_LEN, constant_model, in_fp64
from tests.support.trained_models import TASK, blockwise_model, stock_model

SAMPLES = [
    tiny.random_batch(TASK, lengths, seed=seed)
    for seed, lengths in enumerate([[1, 4, 8, 9], [12], [0, 7], [3], [10, 11], [5, 6, 7, 8, 9, 2]])
]
# The number of repetitions for each way to decode. In compiled code, their steps include trials
# with and without proposals, and the steps between trials.
REPETITIONS = {"compiled": 20, "torch": 4}


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


@pytest.mark.parametrize("way", REPETITIONS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("members", [1, 2])
def test_greedys_output(method, members, way):
    models = [blockwise_model(seed=0), blockwise_model(seed=1)][:members]
    ours = generator_for(models, **METHODS[method])
    assert isinstance(ours, Blockwise)
    if way == "torch":
        ours.search = None
    expected = outputs(generator_for(models, "greedy"), SAMPLES)
    for _ in range(REPETITIONS[way]):
        assert_same_outputs(outputs(ours, SAMPLES), expected)
    assert ours.statistics.row_invocations <= ours.statistics.tokens
    assert ours.statistics.sentences == REPETITIONS[way] * sum(len(own["id"]) for own in SAMPLES)


@pytest.mark.parametrize("way", REPETITIONS)
def test_stock_models_have_drafts_alone(way):
    ours, greedy = (generator_for([stock_model()], name) for name in ("auto", "greedy"))
    assert isinstance(ours, Lookahead)
    if way == "torch":
        ours.search = None
    expected = outputs(greedy, SAMPLES)
    for _ in range(REPETITIONS[way]):
        assert_same_outputs(outputs(ours, SAMPLES), expected)


def test_the_heads_of_one_model_of_an_ensemble_propose():
    models = [blockwise_model(), stock_model()]
    ours, greedy = (generator_for(models, name) for name in ("auto", "greedy"))
    assert isinstance(ours, Blockwise)
    assert_same_outputs(outputs(ours, SAMPLES), outputs(greedy, SAMPLES))


def test_in_fp64_and_behind_prefixes():
    model = in_fp64(blockwise_model())
    prefix = torch.tensor([[7, 8], [9, 1], [6, 6], [5, 1]])
    ours, greedy = (generator_for([model], name) for name in ("auto", "greedy"))
    for _ in range(3):
        assert_same_outputs(
            outputs(ours, SAMPLES[:1], prefix), outputs(greedy, SAMPLES[:1], prefix)
        )


def test_given_drafts():
    ours, greedy = (generator_for([blockwise_model()], name) for name in ("auto", "greedy"))
    expected = outputs(greedy, SAMPLES[:1])
    drafts = [torch.tensor(tokens) for tokens, _ in expected]
    assert_same_outputs(outputs(ours, [dict(SAMPLES[0], drafts=drafts)]), expected)
    assert ours.statistics.drafted_right > 0


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


def test_heads_that_a_model_does_not_have():
    with pytest.raises(ValueError, match="the model has no prediction heads"):
        generator_for([stock_model()], "auto", decoding_block_size=2)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decoding="lookahead", ngram_order="few"), "--ngram-order 'few': must be a whole"),
        (dict(decoding="lookahead", lookahead_window=0), "--lookahead-window 0: must be at least"),
        (dict(decoding="lookahead", lookahead_window=1.5), "--lookahead-window 1.5: must be"),
        (dict(decoding="auto", acceptance="topk"), "--acceptance topk: does not apply to"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**options).check()
