"""int8 that can be trusted: layers with outlier channels are kept in more bits, all others are not.

Such a model computes the same as one without outliers, but for rounding; in 8-bit integers its
outputs would be others (CTranslate2's issues 847 and 1273).
"""

import pytest
import torch
from fairseq.models import FairseqEncoder

from fairseq_fastdec.packing import trial
from fairseq_fastdec.packing.packed import PackedBFloat16, PackedInt8, PackedLinear
from fairseq_fastdec.packing.precision import PRECISIONS
from fairseq_fastdec.packing.prepared_model import prepared
from fairseq_fastdec.packing.rehearsal import random_tokens
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.engine_scores import scores_of
from tests.support.outliers import with_outliers

pytestmark = compiled

TASK = tiny.task(40)
PRE_NORM = dict(encoder_normalize_before=True, decoder_normalize_before=True)


def model_of(**overrides):
    return tiny.stir(tiny.build_model(TASK, **{**PRE_NORM, **overrides}))


def weights_of(model, precision="int8"):
    prepared(model.encoder).encoder(PRECISIONS[precision])
    return prepared(model.decoder).decoder(PRECISIONS[precision], model.encoder)


def probabilities(model, precision="int8"):
    return scores_of(model, TASK, precision).exp()


def distance(own, exact):
    return ((own - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize(
    "overrides",
    [
        {}, dict(encoder_normalize_before=False, decoder_normalize_before=False),
        dict(share_decoder_input_output_embed=True), dict(activation_fn="gelu"),
        dict(decoder_output_dim=16, decoder_input_dim=16), dict(max_target_positions=3),
        dict(scale_fc=True, scale_attn=True, scale_heads=True, scale_resids=True),
        dict(layernorm_embedding=True, no_token_positional_embeddings=True),
    ],
    ids=str,
)  # fmt: skip
def test_models_without_outliers_are_quantised_throughout(overrides, caplog):
    with caplog.at_level("INFO"):
        weights = weights_of(model_of(**overrides))
    assert "kept in" not in caplog.text
    for layer in weights.layers:
        assert {type(own) for own in layer.linears.values()} == {PackedInt8}
    assert type(weights.cross_key_values) is PackedInt8


def test_outliers_that_change_nothing_in_fp32_are_caught(caplog, monkeypatch):
    model = model_of()
    outliers = with_outliers(model, 300.0, parts=("fc1", "fc2", "qkv", "cross", "output"))
    exact = probabilities(model, "fp32")
    assert distance(probabilities(outliers, "fp32"), exact) < 1e-4
    with caplog.at_level("INFO"):
        own = probabilities(outliers)
    assert distance(own, exact) < 0.06
    assert "--engine-precision int8: kept in " in caplog.text
    for name in ("encoder.layers.1.self_qkv", "decoder.layers.0.self_qkv", "layers.0.fc1",
                 "layers.1.fc2", "decoder.cross_key_values",
                 "decoder.output_projection"):  # fmt: skip
        assert f"{name} (" in caplog.text
    assert "cross_query" not in caplog.text and "self_out" not in caplog.text
    # This is what would have become of it.
    monkeypatch.setattr(trial, "LARGEST_ERROR", float("inf"))
    assert distance(probabilities(with_outliers(outliers, 1.0)), exact) > 0.3


def test_only_layers_that_suffer_are_kept():
    weights = weights_of(with_outliers(model_of(), 300.0, parts=("fc2",)))
    for layer in weights.layers:
        kinds = {name: type(own) for name, own in layer.linears.items()}
        assert kinds.pop("fc2") is PackedBFloat16
        assert set(kinds.values()) == {PackedInt8}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_other_precisions_try_nothing(precision):
    assert weights_of(model_of(), precision).rehearsed is None


@torch.no_grad()
def test_the_layers_see_what_the_model_computes(monkeypatch):
    """Nothing is rounded here, so the states are the model's own."""
    monkeypatch.setattr(trial, "PackedInt8", PackedLinear)
    model = model_of(decoder_input_dim=16)
    weights = weights_of(model)
    tokens = random_tokens(len(TASK.target_dictionary), None)
    encoded = model.encoder(tokens, torch.full((4,), 6))
    features = model.decoder(tokens, encoded, features_only=True)[0]
    torch.testing.assert_close(weights.rehearsed, features, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_models_in_other_dtypes_are_tried_in_fp32(dtype, caplog):
    model = model_of()
    with caplog.at_level("INFO"):
        weights = weights_of(with_outliers(model, 300.0, parts=("fc2",)).to(dtype))
    assert weights.rehearsed.dtype == torch.float32
    assert "layers.1.fc2" in caplog.text and "fc1" not in caplog.text


def test_the_model_is_as_before():
    model = model_of().train()
    weights_of(model)
    assert all(module.training for module in model.modules())
    assert not model.encoder.layers[0].self_attn.skip_embed_dim_check


def test_the_users_random_numbers_stay_theirs():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    model = model_of()
    torch.manual_seed(3)
    weights_of(model)
    assert torch.equal(torch.rand(2), expected)


class Elsewhere(FairseqEncoder):
    """An encoder without layers of its own, as those of speech can be."""

    def __init__(self, encoder):
        super().__init__(encoder.dictionary)
        self._elsewhere = encoder

    def forward(self, src_tokens, src_lengths):
        return self._elsewhere(src_tokens, src_lengths)


def test_an_encoder_that_is_not_prepared(caplog):
    """Its states are not known when the decoder's weights are tried."""
    model = model_of()
    model.encoder = Elsewhere(model.encoder)
    with caplog.at_level("INFO"):
        weights = prepared(model.decoder).decoder(PRECISIONS["int8"], model.encoder)
    assert type(weights.cross_key_values) is PackedInt8
    assert "kept in" not in caplog.text


def test_random_tokens_are_words_of_any_dictionary():
    assert random_tokens(1000, None).shape == (4, 6)
    assert random_tokens(1000, 3).shape == (4, 3)
    assert int(random_tokens(5, 2).min()) == int(random_tokens(5, 2).max()) == 4
    assert int(random_tokens(2, 2).max()) < 2
