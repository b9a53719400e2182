"""What all methods have in common, in torch and by compiled code."""

import pytest
import torch

from fairseq_fastdec.decoding import METHODS, build_generator
from fairseq_fastdec.decoding.hypothesis import NotFinite
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.lexical_tables import write_table
from tests.support.to_read import (
    BEAMS,
    LENGTHS,
    arguments,
    assert_as_compiled,
    assert_same_lists,
    compiled_method,
    decoded,
    fp64_model,
    method_to_read,
)
from tests.support.trained_models import TASK, blockwise_model, stock_model

EOS = TASK.target_dictionary.eos()
SINGLE = [name for name in METHODS if name not in ("auto", "double_token")]


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
        assert_as_compiled(models, sample, decoding, method, **given)


@pytest.mark.parametrize("decoding", SINGLE)
def test_a_model_gone_bad_is_an_error_that_names_the_sentences(decoding):
    """NaN everywhere: all sentences end."""
    model = tiny.build_model(TASK, "blockwise_transformer")
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    sample, ends = tiny.random_batch(TASK, [3, 5]), []
    for make in (method_to_read, compiled_method):
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
        assert_as_compiled(models, sample, decoding, prefix=prefix, beam=beam, max_len_b=8)


@pytest.mark.parametrize("decoding", SINGLE)
def test_another_first_token(decoding):
    models, sample = [blockwise_model()], tiny.random_batch(TASK, [3, 5])
    bos = TASK.target_dictionary.bos()
    ours = decoded(models, sample, decoding, bos=bos, max_len_b=10)
    today = compiled_method(models, decoding, max_len_b=10)
    assert_same_lists(ours, today.generate(models, sample, bos_token=bos))


@pytest.mark.parametrize("decoding", SINGLE)
def test_one_generator_serves_batches_of_any_shape(decoding):
    models = [blockwise_model()]
    generator = method_to_read(models, decoding, max_len_b=10)
    for seed, lengths in enumerate([[9] * 6, [1], [3, 8], [0, 0, 0]]):
        sample = tiny.random_batch(TASK, lengths, seed=seed)
        alone = method_to_read(models, decoding, max_len_b=10)
        assert_same_lists(generator.generate(models, sample), alone.generate(models, sample))


@pytest.mark.parametrize(
    "decoding, method, message",
    [
        ("streaming", dict(max_beam_rows=2), "--max-beam-rows 2: less than the 5 rows of one beam"),
        ("blockwise", dict(decoding_block_size=9), "--decoding-block-size 9: .*choose 1 to 4"),
        ("double_token", {}, "--decoding double_token: the model predicts one token a step"),
    ],
)
def test_what_is_not_possible(decoding, method, message):
    options = DecodingOptions(decoding=decoding, **method)
    with pytest.raises(ValueError, match=message):
        build_generator([blockwise_model()], TASK.target_dictionary, arguments(beam=5), options)


def test_a_model_without_heads_cannot_decode_blockwise():
    options = DecodingOptions(decoding="blockwise")
    models = [stock_model(1), stock_model()]
    with pytest.raises(ValueError, match="the 2 models have no prediction heads"):
        build_generator(models, TASK.target_dictionary, arguments(), options)


def test_fp32_is_the_precision_of_fp32_models(nothing_compiled):
    options = DecodingOptions(decoding="greedy", engine_precision="fp32")
    given = (TASK.target_dictionary, arguments(), options)
    assert not build_generator([stock_model()], *given).decodes_compiled()
    with pytest.raises(ValueError, match="--engine-precision fp32: there is no compiled code"):
        build_generator([fp64_model()], *given)
    options.engine_precision = "int8"
    with pytest.raises(ValueError, match="--engine-precision int8: there is no compiled code"):
        build_generator([stock_model()], *given)
