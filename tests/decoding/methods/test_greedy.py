"""Greedy decoding gives what fairseq gives with ``--beam 1``."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny
from tests.support.against_fairseq import (
    assert_same,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
)
from tests.support.doubles import table_model
from tests.support.to_read import LENGTHS, decoded, fp64_model, method_to_read
from tests.support.trained_models import TASK, blockwise_model, stock_model

CONV = "[(32, 3)] * 2"
OTHERS = {
    "lstm": dict(arch="lstm"),
    "fconv": dict(arch="fconv", encoder_layers=CONV, decoder_layers=CONV),
    "adaptive softmax": dict(adaptive_softmax_cutoff="8,16"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@settings(max_examples=8)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_the_output_of_fairseqs_beam_1(trained, dtype, options, lengths, seed):
    of_fp32 = stock_model() if trained else stock_model(trained=False)
    models = [of_fp32 if dtype == torch.float32 else fp64_model(trained)]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    expected = fairseq_hypotheses(models, sample, **options)
    assert_same(decoded(models, sample, "greedy", **options), expected)


@settings(max_examples=8)
@given(
    width=st.integers(0, 6), max_len_b=st.integers(2, 12), lengths=lengths_strategy,
    min_len=st.integers(1, 2), size=st.sampled_from([0, 2, 3]),
)  # fmt: skip
def test_prefixes_and_repeated_ngrams(width, max_len_b, lengths, min_len, size):
    models, sample = [stock_model()], tiny.random_batch(TASK, lengths)
    prefix = sample["target"][:, :width]
    # With the rule against n-grams, fairseq fails an assertion after a prefix that holds EOS.
    size = size if min(lengths) >= width else 0
    options = dict(max_len_b=max_len_b, min_len=min_len, no_repeat_ngram_size=size)
    expected = fairseq_hypotheses(models, sample, prefix_tokens=prefix, **options)
    assert_same(decoded(models, sample, "greedy", prefix=prefix, **options), expected)


@pytest.mark.parametrize("name", [*OTHERS, "double"])
def test_models_that_fairseq_steps_alone_and_in_ensembles(name):
    if name == "double":
        model = table_model(TASK)
    else:
        options = {"criterion": "cross_entropy", **OTHERS[name]}
        model = tiny.stir(tiny.build_model(TASK, **options))
    sample = tiny.random_batch(TASK, sorted(LENGTHS, reverse=True))
    for models in ([model], [model, stock_model(), blockwise_model()]):
        for temperature in (1.0, 2.0):
            options = dict(max_len_b=8, temperature=temperature)
            expected = fairseq_hypotheses(models, sample, **options)
            assert_same(decoded(models, sample, "greedy", **options), expected)


def test_the_cost_of_a_sentence():
    models, sample = [stock_model()], tiny.random_batch(TASK, LENGTHS)
    generator = method_to_read(models, "greedy", max_len_b=12)
    hypotheses = generator.generate(models, sample)
    for own, result in zip(hypotheses, generator.results):
        assert result.steps == own[0]["tokens"].numel()
        assert result.blocks == []
