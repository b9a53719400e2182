"""Models that the engine cannot run: any split gives what the plain full forward gives."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import IncrementalSession
from tests.support import tiny
from tests.support.doubles import table_model
from tests.support.session_replay import (
    LENGTH,
    TASK,
    check_no_rows,
    check_trees_are_refused,
    fuzz,
)

CONV = "[(32, 3)] * 2"
MODELS = {
    "lstm": dict(arch="lstm"),
    "lstm-bidirectional": dict(
        arch="lstm", encoder_bidirectional=True, encoder_hidden_size=24, decoder_layers=2
    ),
    "lstm-without-attention": dict(arch="lstm", decoder_attention="0"),
    "lstm-adaptive": dict(arch="lstm", criterion="adaptive_loss", adaptive_softmax_cutoff="8,16"),
    "fconv": dict(arch="fconv", encoder_layers=CONV, decoder_layers=CONV),
    "lightconv": dict(
        arch="lightconv", encoder_kernel_size_list=[3, 5], decoder_kernel_size_list=[3, 5]
    ),
    "adaptive": dict(adaptive_softmax_cutoff="8,16"),
    "cross-self-attention": dict(cross_self_attention=True, no_cross_attention=True),
    "no-cross-attention": dict(no_cross_attention=True),
    "transformer": dict(),
}


@functools.lru_cache(maxsize=None)
def build(name):
    if name == "double":
        return table_model(TASK).double()
    options = {"criterion": "cross_entropy", **MODELS[name]}
    return tiny.stir(tiny.build_model(TASK, **options)).double()


@pytest.mark.parametrize("name", [*MODELS, "double"])
def test_every_split_gives_the_full_forwards_probabilities(name):
    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(IncrementalSession, build(name), data.draw)

    check()


def test_scores_may_be_written_into():
    session = IncrementalSession(build("lstm"))
    session.reset(LENGTH)
    session.add(tiny.random_batch(TASK, [3, 5])["net_input"])
    features = session.step(torch.tensor([[2], [2]]))
    before = features.clone()
    session.project(features).fill_(0)
    assert torch.equal(features, before)


def test_rows_of_one_length_stay_together():
    """A refill is one more call of the decoder a step; rows that left cost none."""
    session = IncrementalSession(build("lstm"))
    session.reset(LENGTH)
    session.add(tiny.random_batch(TASK, [3, 5, 4])["net_input"])
    session.step(torch.tensor([[2], [2], [2]]))
    session.commit(torch.tensor([1, 1, 1]))
    assert len(session._groups) == 1
    session.add(tiny.random_batch(TASK, [6])["net_input"])
    session.step(torch.full((4, 1), 5))
    session.commit(torch.tensor([0, 1, 1, 1]))
    assert [group.length for group in session._groups] == [1, 2, 1]
    session.select(torch.tensor([3, 2, 2, 1]))
    assert [group.rows.tolist() for group in session._groups] == [[1, 2, 3], [0]]


def test_no_rows():
    check_no_rows(IncrementalSession(build("lstm")))


def test_trees_are_refused():
    check_trees_are_refused(IncrementalSession(build("lstm")))
