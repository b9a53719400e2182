"""Blockwise decoding against a slow reference, its invocations, and its options."""

import argparse
import copy
import json
import math

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.engine.kernels.loading import library
from tests.support import tiny
from tests.support.blockwise import EOS, MAX_LEN, constant_model, generator_for, in_fp64
from tests.support.to_read import (
    assert_same_lists,
    compiled_method,
    method_to_read,
    record_into,
)
from tests.support.trained_models import TASK, blockwise_model, stock_model

PAD = TASK.target_dictionary.pad()


def slow_blockwise(model, net_input, block_size, accepts):
    """Section 3 to the letter, one sentence: full forward passes, Python lists, no cache.

    Returns the output tokens and the sizes of the accepted blocks.
    """
    encoded = model.encoder(net_input["src_tokens"], net_input["src_lengths"])

    def log_probs(prefix, head):
        tokens = torch.tensor([[EOS, *prefix]])
        with torch.no_grad():
            logits = model.decoder(tokens, encoder_out=encoded, head=head)[0][0, -1]
        scores = logits.log_softmax(-1)
        step = len(prefix) + head
        scores[PAD] = -math.inf
        if step == 0:
            scores[EOS] = -math.inf
        if step >= MAX_LEN:
            scores[torch.arange(len(scores)) != EOS] = -math.inf
        return scores

    output, blocks = [], []
    while True:
        block = [int(log_probs(output, head).argmax()) for head in range(block_size)]
        accepted = 1
        while accepted < block_size and EOS not in block[:accepted]:
            own = log_probs(output + block[:accepted], 0)
            if not accepts(own, block[accepted], accepted):
                break
            accepted += 1
        output += block[:accepted]
        blocks.append(accepted)
        if EOS in output:
            return output, blocks


def exact(log_probs, token, index):
    return token == int(log_probs.argmax())


def top_2(log_probs, token, index):
    return token in log_probs.topk(2).indices.tolist() and log_probs[token] > -math.inf


def exact_but_at_least_3(log_probs, token, index):
    return exact(log_probs, token, index) or (index < 3 and log_probs[token] > -math.inf)


RULES = {
    "exact": (exact, dict()),
    "top 1": (exact, dict(acceptance="topk", acceptance_topk=1)),
    "top 2": (top_2, dict(acceptance="topk", acceptance_topk=2)),
    "minimum 3": (exact_but_at_least_3, dict(min_block_size=3)),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "fine-tuned"])
@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@settings(max_examples=6)
@given(
    block_size=st.integers(3, 4),
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_against_the_slow_reference(rule, frozen, precision, block_size, lengths, seed):
    accepts, options = RULES[rule]
    model = blockwise_model(identity_first_head=frozen, freeze_base=frozen)
    if precision == "fp64":
        model = in_fp64(model)
    else:
        # By default proposals are rough in fp32.
        options = dict(options, engine_precision="fp32")
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    generator = generator_for([model], decoding_block_size=block_size, **options)
    records = record_into(generator)
    hypotheses = generator.generate([model], sample)
    for index, (hypothesis, record) in enumerate(zip(hypotheses, records)):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        tokens, blocks = slow_blockwise(model, net_input, block_size, accepts)
        assert hypothesis[0]["tokens"].tolist() == tokens
        assert record["blocks"] == blocks


def blocks_of(model, sample, **options):
    generator = generator_for([model], **options)
    records = record_into(generator)
    generator.generate([model], sample)
    return [record["blocks"] for record in records]


@pytest.mark.parametrize("block_heads", ["parallel", "sequential"])
@pytest.mark.parametrize(
    "options",
    [
        dict(acceptance="topk", acceptance_topk=3),
        dict(min_block_size=2),
        dict(engine_precision="fp32"),
        dict(engine_precision="fp32", acceptance="topk"),
    ],
    ids=str,
)
def test_proposals_are_rough_by_default_only_where_no_output_depends_on_it(options, block_heads):
    """Whatever --proposal-types is: the blocks are those of --proposal-precision engine."""
    n_others = 0
    for seed in range(6):
        # Disturbed weights: some proposals nearly tie, so that rounding shows in some blocks.
        model = tiny.stir(copy.deepcopy(blockwise_model(block_heads=block_heads)), seed, scale=0.4)
        sample = tiny.random_batch(TASK, [1, 4, 8, 9, 12] * 20)
        expected = blocks_of(model, sample, proposal_precision="engine", **options)
        assert blocks_of(model, sample, **options) == expected
        assert blocks_of(model, sample, proposal_types=0, **options) == expected
        n_others += blocks_of(model, sample, proposal_precision="rough", **options) != expected
    # Without compiled code, the heads compute in the same precision as p_1.
    assert bool(n_others) == (library() is not None)


def test_rounded_proposals_change_no_token_and_hardly_an_invocation():
    model = blockwise_model(identity_first_head=False, freeze_base=False)
    sample = tiny.random_batch(TASK, [1, 4, 8, 9, 12] * 20)
    outputs, invocations = [], []
    for each in (model, in_fp64(model)):
        generator = generator_for([each])
        outputs.append([h[0]["tokens"].tolist() for h in generator.generate([each], sample)])
        invocations.append(generator.statistics.row_invocations)
    assert outputs[0] == outputs[1]
    assert invocations[0] == pytest.approx(invocations[1], rel=0.03)


@pytest.mark.parametrize("block_size", [2, 3, 4, 8])
@pytest.mark.parametrize("n_tokens", [2, 3, 8, 9, 13, 24])
def test_heads_that_always_agree_take_m_over_k_plus_1_invocations(block_size, n_tokens):
    """Section 4. An EOS that comes first in its block needs no verification."""
    model = constant_model(block_size)
    generator = generator_for([model], max_len_b=n_tokens - 1)
    hypothesis = generator.generate([model], tiny.random_batch(TASK, [4]))[0][0]
    assert hypothesis["tokens"].tolist() == [7] * (n_tokens - 1) + [EOS]
    invocations = generator.statistics.decoder_invocations
    assert invocations == math.ceil((n_tokens - 1) / block_size) + 1
    assert invocations <= math.ceil(n_tokens / block_size) + 1
    encoder_invocations = generator.statistics.encoder_invocations
    assert encoder_invocations == 1


def test_trained_heads_save_invocations_and_every_head_is_counted(tmp_path):
    model = blockwise_model(identity_first_head=False, freeze_base=False)
    generator = generator_for([model], decoding_stats=str(tmp_path / "stats.jsonl"))
    sample = tiny.random_batch(TASK, [8] * 20)
    hypotheses = generator.generate([model], sample)
    counts = generator.statistics
    assert counts.tokens_per_invocation() > 1.2
    sizes = []
    lines = (tmp_path / "stats.jsonl").read_text().splitlines()
    for (hypothesis,), line in zip(hypotheses, lines):
        tokens = hypothesis["tokens"].tolist()
        for size in json.loads(line)["blocks"]:
            # Where p_1's own token is EOS, nothing is proposed.
            sizes += [size] * (tokens[0] != EOS)
            del tokens[:size]
        assert not tokens
    assert counts.proposed == [len(sizes)] * 3
    assert counts.accepted == [sum(size > head for size in sizes) for head in (1, 2, 3)]
    assert counts.accepted[0] > 0
    assert "mean accepted block size" in counts.summary()


def test_distance_decodes_within_epsilon_of_greedy():
    """The output may leave greedy's, but each token is within epsilon of p_1's choice there."""
    words = Dictionary()
    for value in range(20):
        words.add_symbol(str(value))
    model = blockwise_model()
    generator = generator_for([model], words, acceptance="distance", acceptance_distance=3)
    strict = generator_for([model], words)
    sample = tiny.random_batch(TASK, [7, 8, 9, 6] * 5)
    hypotheses = generator.generate([model], sample)
    strict.generate([model], sample)
    assert generator.statistics.tokens_per_invocation() > strict.statistics.tokens_per_invocation()
    for index, hypothesis in enumerate(hypotheses):
        tokens = hypothesis[0]["tokens"]
        encoded = model.encoder(
            sample["net_input"]["src_tokens"][index : index + 1],
            sample["net_input"]["src_lengths"][index : index + 1],
        )
        previous = torch.cat([torch.tensor([EOS]), tokens[:-1]])[None]
        choices = model.decoder(previous, encoder_out=encoded)[0][0].argmax(-1)
        both_words = (tokens >= words.nspecial) & (choices >= words.nspecial)
        assert (tokens - choices)[both_words].abs().max() <= 3


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decoding_block_size=5), "--decoding-block-size 5: .*--block-size 4"),
        (dict(decoding_block_size=0), "--decoding-block-size 0"),
        (dict(min_block_size=5), "--min-block-size 5"),
        (dict(min_block_size=0), "--min-block-size 0"),
        (dict(acceptance="topk", acceptance_topk=0), "--acceptance-topk 0"),
        (dict(acceptance_distance=-1.0), "--acceptance-distance -1"),
        (dict(acceptance="distance"), "vocabulary must consist of integers, but has 'w0'"),
        (dict(acceptance="best"), "--acceptance best: unknown"),
    ],
)
def test_wrong_values_are_named(options, message):
    options = DecodingOptions(decoding="blockwise", **options)
    with pytest.raises(ValueError, match=message):
        options.check()
        build_generator(
            [blockwise_model()], TASK.target_dictionary, argparse.Namespace(beam=1), options
        )


def test_a_block_of_one_is_greedy():
    """The paper's k = 1: a learned p_1 and nothing else."""
    model = tiny.stir(tiny.build_model(TASK, "blockwise_transformer", block_size=1))
    sample = tiny.random_batch(TASK, [4, 6, 3])
    generator = generator_for([model])
    hypotheses = generator.generate([model], sample)
    greedy = build_generator(
        [model],
        TASK.target_dictionary,
        argparse.Namespace(beam=1, max_len_b=MAX_LEN),
        DecodingOptions(decoding="greedy"),
    )
    expected = greedy.generate([model], sample)
    for own, reference in zip(hypotheses, expected):
        assert own[0]["tokens"].tolist() == reference[0]["tokens"].tolist()
    assert generator.statistics.row_invocations == greedy.statistics.row_invocations


@pytest.mark.parametrize("n, which", [(1, "the model has"), (2, "the 2 models have")])
def test_models_without_heads_are_refused(n, which):
    with pytest.raises(ValueError, match=f"^--decoding blockwise: {which} no prediction heads; "):
        generator_for([tiny.build_model(TASK)] * n)


ENSEMBLES = {
    "parallel": lambda: [stock_model(0), blockwise_model()],
    "learned first": lambda: [
        blockwise_model(identity_first_head=False, freeze_base=False), stock_model(1),
    ],
    "sequential": lambda: [
        stock_model(0), blockwise_model(block_heads="sequential"), stock_model(1, decoder_layers=1),
    ],
    "two of three": lambda: [
        blockwise_model(block_heads="sequential", seed=1), stock_model(0),
        blockwise_model(block_heads="sequential"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_all_members_verify_what_those_with_heads_propose(name, is_compiled):
    """The output is that of greedy decoding with the ensemble."""
    models, sample = ENSEMBLES[name](), tiny.random_batch(TASK, [3, 5, 8, 2], seed=3)
    make = compiled_method if is_compiled else method_to_read
    options = dict(proposal_confidence=0.0, engine_precision="fp32")
    ours = make(models, "blockwise", options, max_len_b=12)
    found = ours.generate(models, sample)
    greedy = make(models, "greedy", dict(engine_precision="fp32"), max_len_b=12)
    assert_same_lists(found, greedy.generate(models, sample), atol=1e-5)
    assert ours.statistics.row_invocations < greedy.statistics.row_invocations
