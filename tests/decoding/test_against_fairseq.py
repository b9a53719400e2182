"""Greedy and blockwise decoding against fairseq's own SequenceGenerator with --beam 1.

These tests are about several methods, so they stand beside the folders of the methods.
"""

import argparse
import copy
import json

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.hypothesis import NotFinite
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.against_fairseq import (
    assert_as_fairseq,
    assert_same,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
    our_generator,
    our_hypotheses,
)
from tests.support.blockwise import in_fp64
from tests.support.trained_models import TASK, blockwise_model, stock_model


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@settings(max_examples=25)
@given(
    options=options_strategy,
    lengths=lengths_strategy,
    left_pad=st.booleans(),
    seed=st.integers(0, 99),
)
def test_greedy_is_fairseqs_beam_1(trained, dtype, options, lengths, left_pad, seed):
    models = [stock_model(0, dtype, trained)]
    sample = tiny.random_batch(TASK, lengths, left_pad, seed)
    assert_as_fairseq(models, sample, "greedy", **options)


@pytest.mark.parametrize("block_size", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "model_options",
    [dict(), dict(block_ffn="split"), dict(identity_first_head=False, freeze_base=False)],
    ids=["frozen", "frozen-split", "fine-tuned"],
)
@settings(max_examples=10)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_exact_blockwise_is_fairseqs_beam_1(model_options, block_size, options, lengths, seed):
    """fairseq's generator sees p_1 of a blockwise model; exact acceptance must give its tokens."""
    models = [blockwise_model(**model_options)]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    method = dict(decoding_block_size=block_size)
    assert_as_fairseq(models, sample, "blockwise", method, **options)


@settings(max_examples=20)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_frozen_blockwise_gives_the_pretrained_models_tokens(options, lengths, seed):
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    assert_same(
        our_hypotheses([blockwise_model()], sample, "blockwise", **options),
        fairseq_hypotheses([stock_model()], sample, **options),
    )


@pytest.mark.parametrize("decoding", ["greedy", "blockwise"])
@settings(max_examples=15)
@given(
    lengths=lengths_strategy,
    seed=st.integers(0, 99),
    width=st.integers(0, 6),
    max_len_b=st.integers(2, 12),
    min_len=st.integers(1, 2),
)
def test_prefixes(decoding, lengths, seed, width, max_len_b, min_len):
    """As --prefix-size takes them: the reference's first tokens, its EOS too, and padding."""
    models = [blockwise_model()]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = sample["target"][:, :width]
    options = dict(max_len_b=max_len_b, min_len=min_len)
    assert_as_fairseq(models, sample, decoding, prefix_tokens=prefix, **options)


@pytest.mark.parametrize("decoding", ["greedy", "blockwise"])
def test_another_first_token(decoding):
    models = [blockwise_model()]
    sample = tiny.random_batch(TASK, [3, 5])
    bos = TASK.target_dictionary.bos()
    assert_as_fairseq(models, sample, decoding, bos_token=bos)


@settings(max_examples=15)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_greedy_ensembles_of_different_sizes(options, lengths, seed):
    models = [
        stock_model(0),
        stock_model(1, decoder_layers=1, decoder_normalize_before=True),
        blockwise_model(),
    ]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    assert_as_fairseq(models, sample, "greedy", **options)


@settings(max_examples=15)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_blockwise_ensembles(options, lengths, seed):
    models = [blockwise_model(), blockwise_model(block_ffn="split", seed=2)]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    assert_as_fairseq(models, sample, "blockwise", **options)


@pytest.mark.parametrize("decoding", ["greedy", "blockwise"])
def test_a_sentence_does_not_depend_on_its_batch(decoding):
    models = [blockwise_model()]
    lengths = [9, 1, 4, 0, 7, 2, 8, 3]
    sample = tiny.random_batch(TASK, lengths)
    together = our_hypotheses(models, sample, decoding)
    for index in range(len(lengths)):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        assert_same(our_hypotheses(models, {"net_input": net_input}, decoding), [together[index]])


@pytest.mark.parametrize("decoding", ["greedy", "blockwise"])
def test_one_generator_serves_batches_of_any_shape(decoding):
    models = [blockwise_model()]
    generator = our_generator(models, decoding)
    for seed, lengths in enumerate([[9] * 6, [1], [3, 8], [0, 0, 0], [9] * 9]):
        sample = tiny.random_batch(TASK, lengths, seed=seed)
        assert_same(generator.generate(models, sample), fairseq_hypotheses(models, sample))


@pytest.mark.parametrize("decoding", ["greedy", "lookahead", "beam", "streaming"])
def test_batches_of_no_sentence_and_of_other_whole_numbers(decoding):
    models, sample = [stock_model()], tiny.random_batch(TASK, [3, 5])
    tokens, lengths = (sample["net_input"][key] for key in ("src_tokens", "src_lengths"))
    expected = our_hypotheses(models, sample, decoding)
    for dtype in (torch.int32, torch.uint8):
        net_input = dict(src_tokens=tokens.to(dtype), src_lengths=lengths.to(dtype))
        assert_same(our_hypotheses(models, {"net_input": net_input}, decoding), expected)
    empty = dict(src_tokens=tokens[:0], src_lengths=lengths[:0])
    assert our_hypotheses(models, {"net_input": empty}, decoding) == []


@pytest.mark.parametrize(
    "decoding",
    ["greedy", "blockwise", "jacobi", "gs_jacobi", "lookahead", "auto", "beam", "variable_beam",
     "streaming"],
)  # fmt: skip
def test_a_model_gone_bad_is_an_error_that_names_the_sentences(decoding):
    """NaN everywhere: fairseq fails an assertion."""
    model = tiny.build_model(TASK, "blockwise_transformer")
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    with pytest.raises(NotFinite, match="^sentences 0, 1: .*--engine-precision fp32") as caught:
        our_hypotheses([model], tiny.random_batch(TASK, [3, 5]), decoding, max_len_b=6)
    # They end, and at the longest length that is allowed.
    assert all(own[0]["tokens"][-1] == 2 for own in caught.value.hypotheses)


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_a_sentence_gone_bad_is_named_among_others(decoding):
    """A word whose embedding holds NaN."""
    model = copy.deepcopy(stock_model())
    sample = tiny.random_batch(TASK, [3, 5, 4])
    word = sample["net_input"]["src_tokens"][1, -2]
    expected = our_hypotheses([model], sample, decoding)
    with torch.no_grad():
        model.encoder.embed_tokens.weight = torch.nn.Parameter(
            model.encoder.embed_tokens.weight.detach().clone()
        )
        model.encoder.embed_tokens.weight[word] = float("nan")
    sample["id"] = torch.tensor([7, 8, 9])
    bad = [
        number for number, row in zip([7, 8, 9], sample["net_input"]["src_tokens"]) if word in row
    ]
    assert 8 in bad and len(bad) < 3
    with pytest.raises(NotFinite) as caught:
        our_hypotheses([model], sample, decoding)
    assert caught.value.sentences == bad
    healthy = [row for row, number in enumerate([7, 8, 9]) if number not in bad]
    assert_same(
        [caught.value.hypotheses[row] for row in healthy], [expected[row] for row in healthy]
    )


@pytest.mark.parametrize(
    "decoding", ["greedy", "blockwise", "jacobi", "gs_jacobi", "hybrid_jacobi", "lookahead"]
)
def test_a_sentences_costs_are_those_that_it_has_alone(decoding, tmp_path):
    models = [in_fp64(blockwise_model())]
    lengths = [3, 5, 8, 2, 6, 4, 0, 7]
    sample = tiny.random_batch(TASK, lengths)
    method = {} if decoding in ("greedy", "blockwise") else dict(guess="pad")
    path = tmp_path / "stats.jsonl"
    of_run = dict(decoding_stats=str(path), **method)
    together = our_generator(models, decoding, of_run, max_len_b=12)
    together.generate(models, sample)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["id"] for record in records] == list(range(len(lengths)))
    for index, record in enumerate(records):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        alone = our_generator(models, decoding, method, max_len_b=12)
        ((own,),) = alone.generate(models, {"net_input": net_input})
        costs = alone.statistics
        assert record["source_tokens"] == lengths[index] + 1
        assert record["tokens"] == costs.tokens == own["tokens"].numel()
        assert record["invocations"] == costs.decoder_invocations == costs.row_invocations
        assert sum(record["blocks"]) == (0 if decoding == "greedy" else costs.tokens)
        assert len(record["blocks"]) == costs.blocks
        assert (costs.sentences, costs.encoder_invocations) == (1, 1)
    costs = together.statistics
    assert costs.row_invocations == sum(record["invocations"] for record in records)
    assert costs.decoder_invocations == max(record["invocations"] for record in records)


def test_options_that_are_not_given_have_fairseqs_defaults():
    """Beam 5 and temperature 1 among them."""
    models, words = [stock_model()], TASK.target_dictionary
    sample = tiny.random_batch(TASK, [3, 5])
    fairseqs = SequenceGenerator(models, words, beam_size=GenerationConfig().beam)
    expected = fairseqs.generate(models, sample)
    for args in (argparse.Namespace(), GenerationConfig()):
        generator = build_generator(models, words, args, DecodingOptions(decoding="beam"))
        for own, theirs in zip(generator.generate(models, sample), expected):
            assert len(own) == len(theirs) == 5
            assert_same([own[:1]], [theirs[:1]])


@pytest.mark.parametrize("decoding", ["greedy", "beam", "lookahead"])
def test_sentences_without_numbers_are_numbered_through(decoding, tmp_path):
    models, path = [stock_model()], tmp_path / "stats.jsonl"
    generator = our_generator(models, decoding, dict(decoding_stats=str(path)))
    for lengths in ([3, 5], [4], [2, 6, 1]):
        sample = tiny.random_batch(TASK, lengths)
        generator.generate(models, {"net_input": sample["net_input"]})
    records = [json.loads(line) for line in path.read_text().splitlines()]
    of_number = {record["id"]: record["source_tokens"] for record in records}
    assert of_number == dict(enumerate([4, 6, 5, 3, 7, 2]))
