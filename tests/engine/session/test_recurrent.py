"""fairseq's LSTMs with all rows in one call: any split gives what the plain full forward gives."""

import functools
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import EnsembleSession
from fairseq_fastdec.engine.session.recurrent import RecurrentSession, is_recurrent
from tests.support import tiny
from tests.support.session_replay import (
    LENGTH,
    TASK,
    check_no_rows,
    check_trees_are_refused,
    fuzz,
)

MODELS = {
    "plain": dict(),
    "bidirectional": dict(encoder_bidirectional=True, encoder_hidden_size=24, decoder_layers=2),
    "without attention": dict(decoder_attention="0"),
    "adaptive": dict(criterion="adaptive_loss", adaptive_softmax_cutoff="8,16"),
}


@functools.lru_cache(maxsize=None)
def build(name="plain"):
    options = {"criterion": "cross_entropy", "arch": "lstm", **MODELS[name]}
    return tiny.stir(tiny.build_model(TASK, **options)).double()


@pytest.mark.parametrize("name", MODELS)
def test_every_split_gives_the_full_forwards_probabilities(name):
    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(RecurrentSession, build(name), data.draw)

    check()


def test_the_models_that_it_runs():
    assert all(map(is_recurrent, map(build, MODELS)))
    assert isinstance(EnsembleSession([build()]).members[0], RecurrentSession)
    for other in (tiny.build_model(TASK), torch.nn.LSTM(2, 2)):
        assert not is_recurrent(other)


def decoder_calls(session, tokens):
    """How many rows each call of the decoder has in a step of one token."""
    decoder = session._model.decoder
    with mock.patch.object(decoder, "forward", side_effect=decoder.forward) as forward:
        session.step(tokens)
    return [call.args[0].size(0) for call in forward.call_args_list]


def test_rows_of_all_lengths_are_one_call():
    session = RecurrentSession(build())
    session.reset(LENGTH)
    session.add(tiny.random_batch(TASK, [3, 5, 4])["net_input"])
    assert decoder_calls(session, torch.full((3, 1), 2)) == [3]
    session.commit(torch.tensor([1, 0, 1]))
    session.add(tiny.random_batch(TASK, [9])["net_input"])
    assert decoder_calls(session, torch.full((4, 1), 5)) == [4]
    session.pause(1)
    assert decoder_calls(session, torch.full((3, 1), 5)) == [3]


def test_sources_of_rows_that_are_gone_are_forgotten():
    session = RecurrentSession(build())
    session.reset(LENGTH)
    for length in (9, 4, 5):
        session.add(tiny.random_batch(TASK, [length, 2])["net_input"])
        session.step(torch.full((session.n_rows, 1), 2))
        session.commit(1)
        session.select(torch.tensor([session.n_rows - 1, session.n_rows - 2]))
    # Those of two rows that stayed, and two new ones; none is as long as the first.
    assert session._sources.outputs.shape[:2] == (6, 4)


def test_scores_may_be_written_into():
    session = RecurrentSession(build())
    session.reset(LENGTH)
    session.add(tiny.random_batch(TASK, [3, 5])["net_input"])
    features = session.step(torch.tensor([[2], [2]]))
    before = features.clone()
    session.project(features).fill_(0)
    assert torch.equal(features, before)


def test_no_rows():
    session = RecurrentSession(build())
    check_no_rows(session)
    session.pause(0)
    session.select(torch.zeros(0, dtype=torch.long))
    session.add(tiny.random_batch(TASK, [4])["net_input"])
    assert session.step(torch.tensor([[5]])).size(0) == session.n_rows == 1


def test_trees_are_refused():
    check_trees_are_refused(RecurrentSession(build()))
