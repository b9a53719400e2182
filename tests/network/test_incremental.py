"""Models that fairseq steps: any division into steps gives the full forward's probabilities."""

import functools

import pytest
from fairseq.models.transformer import TransformerDecoderBase
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.network.incremental import IncrementalNetwork
from tests.support import tiny
from tests.support.doubles import table_model
from tests.support.full_log_probs import full_log_probs
from tests.support.network_replay import NetworkReplay, fuzz_network
from tests.support.trained_models import TASK

CONV = "[(32, 3)] * 2"
MODELS = {
    "lstm": dict(arch="lstm"),
    "lstm-bidirectional": dict(
        arch="lstm", encoder_bidirectional=True, encoder_hidden_size=24, decoder_layers=2
    ),
    "lstm-without-attention": dict(arch="lstm", decoder_attention="0"),
    "fconv": dict(arch="fconv", encoder_layers=CONV, decoder_layers=CONV),
    "lightconv": dict(
        arch="lightconv", encoder_kernel_size_list=[3, 5], decoder_kernel_size_list=[3, 5]
    ),
    "adaptive": dict(adaptive_softmax_cutoff="8,16"),
    "cross-self-attention": dict(cross_self_attention=True, no_cross_attention=True),
    "double": None,
}


@functools.cache
def build(name):
    if name == "double":
        return table_model(TASK).double()
    options = {"criterion": "cross_entropy", **MODELS[name]}
    return tiny.stir(tiny.build_model(TASK, **options)).double()


@pytest.mark.parametrize("name", MODELS)
def test_any_steps_give_the_full_forwards_probabilities(name):
    model = build(name)
    # fairseq's attention computes its softmax in fp32 even in fp64 models.
    tolerance = 1e-5 if isinstance(model.decoder, TransformerDecoderBase) else 1e-9

    @settings(max_examples=6)
    @given(st.data())
    def check(data):
        temperature = data.draw(st.sampled_from([1.0, 0.5]))
        network = IncrementalNetwork(model, temperature)

        def expected(batch, tokens):
            return full_log_probs(model, batch, tokens, temperature)

        fuzz_network(NetworkReplay(network, TASK, expected, tolerance), data.draw, n_actions=8)

    check()
