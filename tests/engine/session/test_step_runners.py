"""Who takes a session's steps, and that it makes no difference."""

import pytest
import torch

from fairseq_fastdec.engine import DecoderSession, TokenTree
from fairseq_fastdec.engine.cuda_graphs import graphs
from fairseq_fastdec.engine.cuda_graphs.recorders import RECORDERS
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.session.step_runners import CompiledRunner, GraphRunner, TorchRunner
from tests.support import skips, tiny
from tests.support.full_forward import random_targets
from tests.support.sessions import steps_by_torch
from tests.support.tape import TapeRecorder

TASK = tiny.task(20)


def session_of(model, lengths=(4, 9, 1), max_len=20, **options):
    session = DecoderSession(model, **options)
    session.reset(max_len)
    session.add(tiny.random_batch(TASK, list(lengths))["net_input"])
    return session


@pytest.fixture
def recorder(monkeypatch):
    """What ``auto`` records with, from the first step of a shape on."""
    recorder = TapeRecorder()
    monkeypatch.setitem(RECORDERS, "auto", lambda device: recorder)
    monkeypatch.setattr(graphs, "OCCURRENCES", 1)
    return recorder


@pytest.mark.skipif(library() is None, reason=skips.COMPILER)
def test_compiled_code_where_there_is_any():
    network = session_of(tiny.build_model(TASK)).network
    assert isinstance(network.runner, CompiledRunner) and network.compiled is not None


def test_torch_where_nothing_is_compiled(nothing_compiled):
    network = session_of(tiny.build_model(TASK)).network
    assert isinstance(network.runner, TorchRunner) and network.compiled is None


def test_recordings_where_there_is_a_recorder(recorder, nothing_compiled):
    model = tiny.build_model(TASK)
    assert isinstance(session_of(model).network.runner, GraphRunner)
    assert isinstance(session_of(model, cuda_graphs="off").network.runner, TorchRunner)


def feed(session, n_steps=4):
    """Features of some steps of two tokens, after which the rows differ in length."""
    features = []
    for seed in range(n_steps):
        features.append(session.step(random_targets(TASK, session.n_rows, 2, seed)).clone())
        session.commit(torch.arange(session.n_rows) % 3)
        session.commit(1)
    return features


def test_all_runners_take_the_same_steps(recorder, request):
    model = tiny.stir(tiny.build_model(TASK))
    by_default, by_torch = (session_of(model, cuda_graphs="off") for _ in range(2))
    steps_by_torch(by_torch)
    features = [feed(by_default), feed(by_torch)]
    request.getfixturevalue("nothing_compiled")
    features.append(feed(session_of(tiny.stir(tiny.build_model(TASK)))))
    assert recorder.tapes
    for others in features[1:]:
        for own, other in zip(features[0], others):
            torch.testing.assert_close(own, other, atol=1e-5, rtol=0)


def test_trees_are_not_recorded(recorder, nothing_compiled):
    model = tiny.stir(tiny.build_model(TASK))
    sessions = [session_of(model), session_of(model, cuda_graphs="off")]
    tree = TokenTree(torch.tensor([[-1, 0, 0]] * 3))
    ours, theirs = (session.step(torch.full((3, 3), 5), tree) for session in sessions)
    assert torch.equal(ours, theirs) and not recorder.tapes


def test_a_runner_follows_the_positions_and_the_weights(recorder, nothing_compiled):
    """A recording holds both."""
    model = tiny.stir(tiny.build_model(TASK))
    session = session_of(model)
    first = session.network
    runner = first.runner
    session.reset(20)
    assert session.network is first and first.runner is runner
    session.reset(500)
    assert session.network is first and first.runner is not runner
    model.load_state_dict(tiny.stir(tiny.build_model(TASK), seed=9).state_dict())
    session.reset(20)
    assert session.network is not first
