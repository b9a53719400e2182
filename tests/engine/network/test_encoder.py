"""Encoders of every kind: from prepared weights, compiled or not, or as they are."""

import pytest
import torch

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.network.encoder import SourceEncoder, runs_prepared
from fairseq_fastdec.engine.products.precision import PRECISIONS
from tests.support import tiny
from tests.support.compiled import PRECISIONS as COMPILED
from tests.support.compiled import compiled
from tests.support.full_forward import full_logits, random_targets
from tests.support.precisions import TOLERANCE, logits_of

TASK = tiny.task(20)

OPTIONS = [
    {},
    dict(encoder_normalize_before=True),
    dict(activation_fn="gelu"),
    dict(encoder_learned_pos=True),
    dict(no_token_positional_embeddings=True),
    dict(layernorm_embedding=True, no_scale_embedding=True),
    # No multiples of what lies side by side in a packed weight or in a register.
    dict(encoder_embed_dim=44, encoder_ffn_embed_dim=50),
    dict(encoder_embed_dim=292, encoder_ffn_embed_dim=96, encoder_layers=1),
]


def encode(model, batch, precision="model", natively=True):
    """The states of each sentence, ``[length, C]``."""
    encoder = SourceEncoder(model.encoder, PRECISIONS[precision])
    encoder.prepare()
    if not natively:
        encoder._compiled = None
    states, lengths = encoder(batch["net_input"])
    return [own[:length] for own, length in zip(states, lengths.tolist())]


def encoded_by_fairseq(model, batch):
    encoded = model.encoder.forward_torchscript(batch["net_input"])
    states = encoded["encoder_out"][0].transpose(0, 1)
    there = batch["net_input"]["src_tokens"].ne(TASK.source_dictionary.pad())
    return [own[real] for own, real in zip(states, there)]


@pytest.mark.parametrize("natively", [pytest.param(True, marks=compiled), False])
@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "post-norm")
@torch.no_grad()
def test_it_gives_what_fairseq_gives(options, left_pad, natively):
    model = tiny.stir(tiny.build_model(TASK, **options))
    for lengths in ([5], [4, 9, 1], [3, 3], [40, 2]):
        batch = tiny.random_batch(TASK, lengths, left_pad)
        states = encode(model, batch, natively=natively)
        assert list(map(len, states)) == [length + 1 for length in lengths]  # and EOS
        for own, theirs in zip(states, encoded_by_fairseq(model, batch)):
            torch.testing.assert_close(own, theirs, atol=1e-5, rtol=1e-5)


@compiled
@pytest.mark.parametrize("precision", COMPILED)
def test_compiled_states_depend_on_nothing_beside_the_sentence(precision):
    model = tiny.stir(tiny.build_model(TASK, encoder_normalize_before=True))
    batch = tiny.random_batch(TASK, [4, 9, 1, 9])
    together = encode(model, batch, precision)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for own, in_threads in zip(together, encode(model, batch, precision)):
            assert torch.equal(own, in_threads)
    finally:
        torch.set_num_threads(before)
    for own, tokens in zip(together, batch["net_input"]["src_tokens"]):
        words = tokens[tokens.ne(TASK.source_dictionary.pad())][None]
        (alone,) = encode(model, {"net_input": {"src_tokens": words}}, precision)
        assert torch.equal(own, alone)
    for own, by_torch in zip(together, encode(model, batch, precision, natively=False)):
        assert not torch.equal(own, by_torch)  # or torch has computed both


@compiled
def test_batches_of_any_size_follow_each_other():
    """Small ones use the same memory again, large ones have their own."""
    model = tiny.stir(tiny.build_model(TASK, encoder_ffn_embed_dim=4096))
    encoder = SourceEncoder(model.encoder, PRECISIONS["model"])
    encoder.prepare()
    for n_sentences in (2, 300, 1, 40, 2):
        batch = tiny.random_batch(TASK, [3 + index % 5 for index in range(n_sentences)])
        states, lengths = encoder(batch["net_input"])
        expected = encode(model, batch, natively=False)
        for own, length, theirs in zip(states, lengths.tolist(), expected):
            torch.testing.assert_close(own[:length], theirs, atol=1e-5, rtol=1e-5)


@compiled
@pytest.mark.parametrize(
    "options, precision",
    [
        (dict(dtype=torch.float64), "model"),
        (dict(activation_fn="tanh"), "model"),
        (dict(activation_fn="tanh"), "bf16"),
    ],
    ids=str,
)
def test_what_is_left_to_torch(options, precision):
    model = tiny.stir(tiny.build_model(TASK, **options))
    encoder = SourceEncoder(model.encoder, PRECISIONS[precision])
    encoder.prepare()
    assert encoder._compiled is None
    batch = tiny.random_batch(TASK, [4, 9])
    for own, theirs in zip(encode(model, batch, precision), encoded_by_fairseq(model, batch)):
        error = (own - theirs).abs().mean() / theirs.std()
        assert error < TOLERANCE[precision]


@pytest.mark.parametrize("natively", [pytest.param(True, marks=compiled), False])
def test_sources_beyond_the_learned_positions(natively):
    model = tiny.build_model(TASK, encoder_learned_pos=True, max_source_positions=8)
    encode(model, tiny.random_batch(TASK, [7]), natively=natively)
    with pytest.raises(IndexError, match="a source of 9 tokens; the model has 8 positions"):
        encode(model, tiny.random_batch(TASK, [8]), natively=natively)


def test_a_stock_encoder_runs_from_prepared_weights(monkeypatch):
    model = tiny.stir(tiny.build_model(TASK))
    batch, tokens = tiny.random_batch(TASK, [4, 9]), random_targets(TASK, 2, 5)
    exact = full_logits(model, batch, tokens)
    monkeypatch.setattr(type(model.encoder), "forward_torchscript", None)
    logits = logits_of(DecoderSession(model), batch, tokens, 5)
    torch.testing.assert_close(logits, exact, atol=1e-5, rtol=0)


def own_forward(model):
    class Custom(type(model.encoder)):
        def forward_scriptable(self, *args, **kwargs):
            encoded = super().forward_scriptable(*args, **kwargs)
            return {**encoded, "encoder_out": [encoded["encoder_out"][0] * 0.5]}

    model.encoder.__class__ = Custom


def own_layer(model):
    class Custom(type(model.encoder.layers[1])):
        def residual_connection(self, x, residual):
            return residual - x

    model.encoder.layers[1].__class__ = Custom


def a_bias_key(model):
    attention = model.encoder.layers[0].self_attn
    attention.bias_k = attention.bias_v = torch.nn.Parameter(torch.randn(1, 1, 32))


def own_embedding(model):
    class Custom(torch.nn.Embedding):
        def forward(self, tokens):
            return super().forward(tokens).flip(-1)

    model.encoder.embed_tokens.__class__ = Custom


def a_layer_behind_the_embedding(model):
    model.encoder.quant_noise = torch.nn.Linear(32, 32, bias=False)


@pytest.mark.parametrize(
    "change",
    [own_forward, own_layer, a_bias_key, own_embedding, a_layer_behind_the_embedding],
)
@pytest.mark.parametrize("precision", ["model", "int8"])
def test_other_encoders_run_as_they_are(change, precision):
    model = tiny.stir(tiny.build_model(TASK))
    assert runs_prepared(model.encoder)
    change(model)
    assert not runs_prepared(model.encoder)
    batch, tokens = tiny.random_batch(TASK, [4, 9]), random_targets(TASK, 2, 5)
    exact = full_logits(model, batch, tokens)
    logits = logits_of(DecoderSession(model, precision), batch, tokens, 5)
    assert (logits - exact).abs().mean() / exact.std() < TOLERANCE[precision]
