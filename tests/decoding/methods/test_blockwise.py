"""Blockwise decoding: exact acceptance is lossless, and right proposals save invocations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods.acceptance import exact
from fairseq_fastdec.decoding.methods.blockwise import accepted
from tests.support import tiny
from tests.support.against_fairseq import (
    assert_same,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
)
from tests.support.blockwise import EOS, constant_model
from tests.support.to_read import decoded, method_to_read, model_with
from tests.support.trained_models import TASK


@pytest.mark.parametrize("heads", ["parallel", "sequential"])
@settings(max_examples=8)
@given(
    options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99),
    block_size=st.integers(1, 4),
)  # fmt: skip
def test_exact_acceptance_gives_fairseqs_beam_1(heads, options, lengths, seed, block_size):
    models, sample = [model_with(heads)], tiny.random_batch(TASK, lengths, seed=seed)
    method = dict(decoding_block_size=block_size)
    expected = fairseq_hypotheses(models, sample, **options)
    assert_same(decoded(models, sample, "blockwise", method, **options), expected)


def test_right_proposals_take_one_invocation_for_k_tokens_and_one_more():
    """Section 4: m/k + 1 invocations."""
    models, sample = [constant_model(block_size=4)], tiny.random_batch(TASK, [3])
    generator = method_to_read(models, "blockwise", max_len_b=12)
    ((own,),) = generator.generate(models, sample)
    assert own["tokens"].tolist() == [7] * 12 + [EOS]
    (result,) = generator.results
    assert result.steps == 12 / 4 + 1 and result.blocks == [4, 4, 4, 1]
    assert generator.statistics.accepted == [3, 3, 3]


def test_the_longest_accepted_prefix_of_a_chain():
    best = torch.tensor([[5, 6, 7, 9], [5, 8, 7, 9], [5, 6, 7, 9]])
    log_probs = torch.zeros(3, 4, 12).scatter(2, best[..., None], 1.0)
    chains = torch.tensor([[5, 6, 7], [5, 6, 7], [6, 6, 7]])
    assert accepted(chains, log_probs, exact).tolist() == [4, 2, 1]
