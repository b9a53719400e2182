"""Models that fairseq steps: any division into steps gives the full forward's probabilities."""

import functools
from unittest.mock import Mock

import pytest
import torch
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


def replay_of(model, tolerance, temperature=1.0):
    def expected(batch, tokens):
        return full_log_probs(model, batch, tokens, temperature)

    network = IncrementalNetwork(model, temperature)
    return NetworkReplay(network, TASK, expected, tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_any_steps_give_the_full_forwards_probabilities(name):
    model = build(name)
    # fairseq's attention computes its softmax in fp32 even in fp64 models.
    tolerance = 1e-5 if isinstance(model.decoder, TransformerDecoderBase) else 1e-9

    @settings(max_examples=6)
    @given(st.data())
    def check(data):
        temperature = data.draw(st.sampled_from([1.0, 0.5]))
        fuzz_network(replay_of(model, tolerance, temperature), data.draw, n_actions=8)

    check()


def counted(monkeypatch, module, name):
    """Count the calls of a method of a module."""
    calls = Mock(wraps=getattr(module, name))
    monkeypatch.setattr(module, name, calls)
    return calls


ONE = torch.ones(1, dtype=torch.long)


@pytest.mark.parametrize("name", ["lstm", "fconv", "adaptive"])
def test_rows_are_decoded_together(name, monkeypatch):
    """Again, after they differed in length: one call of the decoder for all rows of a batch."""
    model = build(name)
    replay, calls = replay_of(model, 1e-5), counted(monkeypatch, model.decoder, "forward")
    replay.encode([5, 3, 4, 6], True, seed=1)
    calls.reset_mock()
    replay.step(slice(0, 4), 1, ONE.expand(4))
    replay.step(slice(1, 3), 1, ONE.expand(2))
    assert calls.call_count == 2
    calls.reset_mock()
    # The state of an LSTM does not depend on the number of tokens.
    replay.step(slice(0, 4), 1, ONE.expand(4))
    assert calls.call_count == (1 if name == "lstm" else 2)
    calls.reset_mock()
    replay.step(slice(0, 1), 1, ONE)
    replay.step(slice(3, 4), 1, ONE)
    calls.reset_mock()
    for n in (1, 2):
        replay.step(slice(0, 4), 1, ONE.expand(4))
        assert calls.call_count == n
    # Rows of another batch have sources of another length.
    replay.encode([7], True, seed=2)
    calls.reset_mock()
    replay.step(slice(0, 5), 1, ONE.expand(5))
    assert calls.call_count == 2


@pytest.mark.parametrize("name", ["lstm", "adaptive"])
def test_sources_are_copied_only_if_rows_have_others(name, monkeypatch):
    """As in fairseq, candidates change places within their sentence without that."""
    model = build(name)
    replay = replay_of(model, 1e-5)
    copies = counted(monkeypatch, model.encoder, "reorder_encoder_out")
    replay.encode([5, 3], True, seed=1)
    replay.select(torch.tensor([0, 0, 1, 1]))
    assert copies.call_count == 1
    replay.step(slice(0, 4), 2, torch.tensor([1, 1, 1, 1]))
    replay.select(torch.tensor([1, 1, 2, 3]))
    replay.step(slice(0, 4), 1, ONE.expand(4))
    assert copies.call_count == 1
    replay.select(torch.tensor([2, 3, 0, 1]))
    replay.step(slice(0, 4), 1, ONE.expand(4))
    assert copies.call_count == 2
