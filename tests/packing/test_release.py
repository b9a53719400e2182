"""Released weights: the same output, in less memory, and never a silent mistake afterwards."""

import argparse
import copy

import pytest
import torch
from torch import nn

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.packing.own_weights import ReleasedWeights
from fairseq_fastdec.packing.prepared_model import prepared
from fairseq_fastdec.packing.release import release_once_prepared
from fairseq_fastdec.packing.weights import layer_linears
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.lexical_tables import write_table
from tests.support.pretended_gpu import on_gpu

pytestmark = compiled

TASK = tiny.task(20)
LENGTHS = [9, 3, 1, 6]
MESSAGE = "^--keep-model: not given"


def stock(**overrides):
    return tiny.stir(tiny.build_model(TASK, **overrides))


def blockwise():
    return tiny.stir(tiny.build_model(TASK, "blockwise_transformer", block_size=3))


def released(linear):
    return linear.weight.numel() == 0


def weights_gone(model):
    return [name for name, module in model.named_modules() if is_gone(module)]


def is_gone(module):
    return isinstance(module, nn.Linear) and released(module)


def generate(models, decoding="greedy", **options):
    method = DecodingOptions(decoding=decoding, **options)
    args = argparse.Namespace(beam=3 if decoding == "beam" else 1, max_len_b=12, nbest=1)
    generator = build_generator(models, TASK.target_dictionary, args, method)
    hypotheses = generator.generate(models, tiny.random_batch(TASK, LENGTHS))
    return [[(h["tokens"].tolist(), h["score"].item()) for h in own] for own in hypotheses]


@pytest.mark.parametrize("precision", ["model", "fp32", "bf16", "int8"])
@pytest.mark.parametrize(
    "decoding, model",
    [
        ("greedy", stock()),
        ("greedy", stock(share_decoder_input_output_embed=True)),
        ("beam", stock(decoder_normalize_before=True, encoder_normalize_before=True)),
        ("lookahead", stock(share_all_embeddings=True)),
        ("blockwise", blockwise()),
    ],
)
def test_the_output_is_the_same(decoding, model, precision):
    expected = generate([model], decoding, engine_precision=precision)
    model = copy.deepcopy(model)
    release_once_prepared([model])
    assert weights_gone(model) == []
    for _ in range(2):  # the second generator finds everything prepared
        assert generate([model], decoding, engine_precision=precision) == expected
    for coder in (model.encoder, model.decoder):
        for layer in coder.layers:
            assert all(map(released, layer_linears(layer)))


def test_without_compiled_code(nothing_compiled):
    """Torch decodes with the model's own weights."""
    model = stock()
    expected = generate([model])
    model = copy.deepcopy(model)
    release_once_prepared([model])
    assert generate([model]) == expected
    assert not weights_gone(model)


def test_what_stays():
    model = stock()
    before = {name: value.clone() for name, value in model.named_parameters()}
    release_once_prepared([model])
    generate([model])
    for name, parameter in model.named_parameters():
        if parameter.numel():
            assert torch.equal(parameter, before[name])
        else:
            assert name.endswith("weight") and parameter.dtype == torch.float32
    gone = set(weights_gone(model))
    assert "decoder.output_projection" in gone
    assert len(gone) == 2 * 6 + 2 * 10 + 1


def test_a_shared_output_layer_stays():
    model = stock(share_decoder_input_output_embed=True)
    release_once_prepared([model])
    generate([model])
    assert not released(model.decoder.output_projection)
    assert weights_gone(model)


def test_layers_that_share_weights_stay():
    model = stock()
    first, second = model.decoder.layers
    second.fc1.weight = first.fc1.weight
    model.encoder.layers[1] = model.encoder.layers[0]
    expected = generate([copy.deepcopy(model)])
    release_once_prepared([model])
    assert generate([model]) == expected
    assert not released(first.fc1) and released(first.fc2)
    assert not any(map(released, layer_linears(model.encoder.layers[0])))


def test_members_of_an_ensemble():
    models = [stock(), tiny.stir(tiny.build_model(TASK, seed=4), seed=5)]
    expected = generate(models)
    models = copy.deepcopy(models)
    release_once_prepared(models)
    assert generate(models) == expected
    assert all(map(weights_gone, models))


def test_ensembles_that_the_engine_cannot_run_stay():
    models = [stock(), tiny.build_model(TASK, "lstm", criterion="cross_entropy")]
    expected = generate(copy.deepcopy(models))
    release_once_prepared(models)
    assert generate(models) == expected
    assert not any(map(weights_gone, models))


@pytest.mark.parametrize("precision", ["model", "bf16", "int8"])
@pytest.mark.parametrize("shared", [False, True])
def test_shortlists_take_rows_of_the_output_layer(tmp_path, precision, shared):
    lines = [(f"w{(n + 1) % 20}", f"w{n}", 1.0) for n in range(20)]
    table = write_table(tmp_path / "lex.s2t", lines)
    options = dict(shortlist=table, shortlist_first=0, engine_precision=precision)
    model = stock(share_decoder_input_output_embed=shared)
    expected = generate([model], **options)
    model = copy.deepcopy(model)
    release_once_prepared([model])
    for _ in range(2):
        assert generate([model], **options) == expected


def test_heads_keep_the_output_layer():
    """They read it in another precision than p_1."""
    models = [blockwise() for _ in range(2)]
    release_once_prepared(models[1:])
    found = [generate([model], "blockwise") for model in models]
    assert found[0] == found[1]
    assert weights_gone(models[1]) and not released(models[1].decoder.output_projection)


@pytest.fixture
def gone():
    """A model that has been released for int8."""
    model = stock()
    release_once_prepared([model])
    generate([model], engine_precision="int8")
    return model


def test_fairseqs_own_decoding_is_refused(gone):
    net_input = tiny.random_batch(TASK, [3, 5])["net_input"]
    encoder_input = {name: net_input[name] for name in ("src_tokens", "src_lengths")}
    for call in (
        lambda: gone(**net_input),
        lambda: gone.encoder(**encoder_input),
        lambda: gone.encoder.forward_torchscript(encoder_input),
        lambda: gone.decoder.extract_features(net_input["prev_output_tokens"], None),
        lambda: gone.decoder.output_layer(torch.zeros(1, 1, 32)),
        gone.state_dict,
    ):
        with pytest.raises(ReleasedWeights, match=MESSAGE):
            call()


def test_a_refused_call_does_not_end_the_decoding():
    model = stock()
    release_once_prepared([model])
    expected = generate([model])
    with pytest.raises(ReleasedWeights):
        model(**tiny.random_batch(TASK, [3, 5])["net_input"])
    assert generate([model]) == expected


def test_another_precision_is_refused(gone):
    with pytest.raises(ReleasedWeights, match=MESSAGE):
        generate([gone], engine_precision="fp32")


def test_a_model_that_has_changed_is_refused(gone):
    gone.double()
    with pytest.raises(ReleasedWeights, match=MESSAGE):
        generate([gone], engine_precision="int8")


def test_a_copy_is_refused(gone):
    other = copy.deepcopy(gone)
    with pytest.raises(ReleasedWeights, match=MESSAGE):
        generate([other], engine_precision="int8")


def test_other_parameters_do_not_load(gone):
    with pytest.raises(RuntimeError, match="size mismatch"):
        gone.load_state_dict(stock().state_dict())
    with pytest.raises(ReleasedWeights, match=MESSAGE):
        generate([gone], engine_precision="int8")


def test_models_on_a_gpu_stay():
    model = on_gpu(stock())
    release_once_prepared([model])
    own = prepared(model.decoder)._own
    layer = model.decoder.layers[0]
    with own.reading(layer, layer_linears(layer)):
        pass
    assert own.n_released == 0 and weights_gone(model) == []


def test_nobody_releases_without_being_told():
    model = stock()
    generate([model], engine_precision="int8")
    assert weights_gone(model) == []
    model(**tiny.random_batch(TASK, [3, 5])["net_input"])
