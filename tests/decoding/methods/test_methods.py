"""Every method against the generator of its name: hypotheses, records and statistics.

The options are drawn. These tests are about all methods, so they stand beside the methods' own.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods import METHODS_TO_READ, build
from fairseq_fastdec.generators.hypothesis import NotFinite
from fairseq_fastdec.generators.methods import METHODS, generator_class
from fairseq_fastdec.generators.options import DecodingOptions
from tests.support import tiny
from tests.support.lexical_tables import write_table
from tests.support.to_read import (
    BEAMS,
    JACOBI,
    LENGTHS,
    arguments,
    assert_as_today,
    assert_same_lists,
    beams_strategy,
    blockwise_models,
    blockwise_strategy,
    capacities,
    decoded,
    fp64_model,
    generation_strategy,
    generator_of_today,
    jacobi_strategy,
    method_to_read,
    models_strategy,
    prefix_widths,
    samples_strategy,
)
from tests.support.trained_models import TASK, blockwise_model, stock_model

EOS = TASK.target_dictionary.eos()
SINGLE = [name for name in METHODS_TO_READ if name != "double_token"]


def prefix_of(sample, width):
    return None if width is None else sample["target"][:, :width]


@settings(max_examples=10, deadline=None)
@given(
    models=models_strategy,
    sample=samples_strategy,
    options=generation_strategy,
    width=prefix_widths,
)
def test_greedy(models, sample, options, width):
    assert_as_today(models(), sample, "greedy", prefix=prefix_of(sample, width), **options)


@settings(max_examples=30, deadline=None)
@given(
    models=blockwise_models,
    sample=samples_strategy,
    method=blockwise_strategy(),
    options=generation_strategy,
    width=prefix_widths,
)
def test_blockwise(models, sample, method, options, width):
    prefix, models = prefix_of(sample, width), models()
    if len(models) > 1:
        # Today's ensembles of parallel heads propose all types, whatever the option says.
        method = {**method, "proposal_types": 0}
    assert_as_today(models, sample, "blockwise", method, prefix=prefix, **options)


@pytest.mark.parametrize("decoding", [*JACOBI, "lookahead"])
@settings(max_examples=15, deadline=None)
@given(
    data=st.data(),
    models=models_strategy,
    sample=samples_strategy,
    options=generation_strategy,
    width=prefix_widths,
)
def test_fixed_points(decoding, data, models, sample, options, width):
    method = data.draw(jacobi_strategy(decoding))
    prefix = prefix_of(sample, width)
    assert_as_today(models(), sample, decoding, method, prefix=prefix, **options)


@pytest.mark.parametrize("decoding", BEAMS)
@settings(max_examples=15, deadline=None)
@given(
    data=st.data(),
    models=models_strategy,
    sample=samples_strategy,
    options=generation_strategy,
    width=prefix_widths,
)
def test_beams(decoding, data, models, sample, options, width):
    method = data.draw(beams_strategy(decoding))
    capacity = data.draw(capacities) if decoding == "streaming" else None
    beam = data.draw(st.integers(1, 5))
    prefix = prefix_of(sample, width)
    assert_as_today(
        models(), sample, decoding, method, prefix=prefix, capacity=capacity, beam=beam, **options
    )


@pytest.mark.parametrize("decoding", SINGLE)
def test_a_shortlist(decoding, tmp_path):
    """Each word is translated by the next one, or copied."""
    lines = [(f"w{(number + 1) % 20}", f"w{number}", 1.0) for number in range(20)]
    path = write_table(tmp_path / "lex.s2t", lines)
    sample = tiny.random_batch(TASK, LENGTHS)
    beam = 3 if decoding in BEAMS else 1
    capacity = dict(sentences=3) if decoding == "streaming" else None
    method = dict(shortlist=path, shortlist_first=0)
    models = [blockwise_model()]
    prefix = sample["target"][:, :1]
    for own in (None, prefix):
        given = dict(prefix=own, capacity=capacity, beam=beam, max_len_b=10)
        assert_as_today(models, sample, decoding, method, **given)


@pytest.mark.parametrize("decoding", SINGLE)
def test_a_model_gone_bad_is_an_error_that_names_the_sentences(decoding):
    """NaN everywhere: all sentences end, as they do today."""
    model = tiny.build_model(TASK, "blockwise_transformer")
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    sample, ends = tiny.random_batch(TASK, [3, 5]), []
    for make in (method_to_read, generator_of_today):
        generator = make([model], decoding, max_len_b=6)
        with pytest.raises(NotFinite, match="^sentences 0, 1: ") as caught:
            generator.generate([model], sample)
        ends.append([own[0]["tokens"].tolist() for own in caught.value.hypotheses])
    assert ends[0] == ends[1] and all(own[-1] == EOS for own in ends[0])


@pytest.mark.parametrize("decoding", SINGLE)
def test_prefixes_that_are_whole_outputs(decoding):
    models = [blockwise_model()]
    for lengths, width in (([0, 0], 1), ([0, 3], 2)):
        sample = tiny.random_batch(TASK, lengths)
        prefix = sample["target"][:, :width]
        beam = 3 if decoding in BEAMS else 1
        assert_as_today(models, sample, decoding, prefix=prefix, beam=beam, max_len_b=8)


@pytest.mark.parametrize("decoding", SINGLE)
def test_another_first_token(decoding):
    models, sample = [blockwise_model()], tiny.random_batch(TASK, [3, 5])
    bos = TASK.target_dictionary.bos()
    ours = decoded(models, sample, decoding, bos=bos, max_len_b=10)
    today = generator_of_today(models, decoding, max_len_b=10)
    assert_same_lists(ours, today.generate(models, sample, bos_token=bos))


@pytest.mark.parametrize("decoding", SINGLE)
def test_one_generator_serves_batches_of_any_shape(decoding):
    models = [blockwise_model()]
    generator = method_to_read(models, decoding, max_len_b=10)
    for seed, lengths in enumerate([[9] * 6, [1], [3, 8], [0, 0, 0]]):
        sample = tiny.random_batch(TASK, lengths, seed=seed)
        alone = method_to_read(models, decoding, max_len_b=10)
        assert_same_lists(generator.generate(models, sample), alone.generate(models, sample))


def test_the_table_is_that_of_the_generators():
    """But for ``auto``, which chooses among methods."""
    assert set(METHODS_TO_READ) == set(METHODS) - {"auto"}
    for name, method in METHODS_TO_READ.items():
        today = generator_class(name)
        for attribute in ("keeps_one_hypothesis", "tokens_per_step", "honours"):
            assert getattr(method, attribute) == getattr(today, attribute), name


@pytest.mark.parametrize(
    "decoding, method, message",
    [
        ("auto", {}, "--decoding auto: unknown; choose one of greedy"),
        ("greedy", dict(engine_precision="int8"), "--engine-precision int8: needs compiled code"),
        ("lookahead", dict(lookahead_window="auto"), "--lookahead-window auto: not possible here"),
        ("blockwise", dict(proposal_tree="auto"), "--proposal-tree auto: not possible here"),
        ("streaming", dict(max_beam_rows=2), "--max-beam-rows 2: less than one beam, 5 rows"),
        ("blockwise", dict(decoding_block_size=9), "--decoding-block-size 9: .*choose 1 to 4"),
        ("double_token", {}, "--decoding double_token: the model predicts one token a step"),
    ],
)
def test_what_is_not_possible(decoding, method, message):
    options = DecodingOptions(decoding=decoding, **method)
    with pytest.raises(ValueError, match=message):
        build([blockwise_model()], TASK.target_dictionary, arguments(beam=5), options)


def test_a_model_without_heads_cannot_decode_blockwise():
    options = DecodingOptions(decoding="blockwise")
    models = [blockwise_model(), stock_model()]
    with pytest.raises(ValueError, match="model 2 of 2 has no prediction heads; train heads"):
        build(models, TASK.target_dictionary, arguments(), options)


def test_fp32_is_the_precision_of_fp32_models():
    options = DecodingOptions(decoding="greedy", engine_precision="fp32")
    build([stock_model()], TASK.target_dictionary, arguments(), options)
    with pytest.raises(ValueError, match="--engine-precision fp32: needs compiled code"):
        build([fp64_model()], TASK.target_dictionary, arguments(), options)
