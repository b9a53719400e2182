"""Recorded steps, on a CPU: everything about CUDA graphs but the capture itself."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.cuda_graphs import graphs, static_step
from fairseq_fastdec.engine.cuda_graphs.recorders import RECORDERS, cuda_recorder
from fairseq_fastdec.engine.cuda_graphs.static_step import (
    RowState,
    SourceLayout,
    StepShape,
    padded_length,
)
from fairseq_fastdec.engine.network.cache import KeyValueCache
from tests.support import tiny
from tests.support.full_forward import ARCHITECTURES, random_targets
from tests.support.replay import Replay, fuzz
from tests.support.tape import TapeRecorder, given_up

TASK = tiny.task(20)


@pytest.fixture
def recorder(monkeypatch):
    """What ``auto`` records with, from the first step of a shape on; nothing may be wrong."""
    recorder = TapeRecorder()
    monkeypatch.setitem(RECORDERS, "auto", lambda device: recorder)
    monkeypatch.setattr(graphs, "OCCURRENCES", 1)
    monkeypatch.setattr(graphs.StepGraphs, "_give_up", given_up)
    return recorder


@pytest.fixture(autouse=True)
def only_torch(nothing_compiled):
    """Graphs are for GPUs; what stands in for one sees torch's operations only."""


@pytest.fixture
def replays(monkeypatch):
    """How often each recorded step was replayed."""
    counts = {}
    features = graphs._RecordedStep.features

    def counted(self, state, tokens):
        counts[id(self.static)] = counts.get(id(self.static), -1) + 1
        return features(self, state, tokens)

    monkeypatch.setattr(graphs._RecordedStep, "features", counted)
    return counts


def model_of(**options):
    return tiny.stir(tiny.build_model(TASK, **options))


@pytest.mark.parametrize("granule", [2, 32])
@pytest.mark.parametrize(
    "architecture", ["post-norm", "pre-norm", "learned positions", "normformer"]
)
def test_any_steps_replayed_give_the_full_forward_logits(
    architecture, granule, recorder, replays, monkeypatch
):
    """Ragged and paused rows, beams, rows and sources that come, go and move, caches that grow."""
    monkeypatch.setattr(static_step, "GRANULE", granule)
    model = model_of(**ARCHITECTURES[architecture])

    @settings(max_examples=10, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(model, TASK, data.draw, 1e-5, n_operations=25)

    check()
    assert sum(replays.values()) > 10


def test_any_pairs_replayed_give_the_full_forward_logits(recorder, replays):
    task = tiny.double_token_task()
    model = tiny.stir(tiny.build_model(task, "double_token_transformer"))

    @settings(max_examples=10, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(model, task, data.draw, 1e-5, n_operations=25, unit=2)

    check()
    assert sum(replays.values()) > 10


class Twins:
    """The same session with recordings and without; features must not differ."""

    def __init__(self, model, tolerance=1e-5, **options):
        self.sessions = [
            DecoderSession(model, cuda_graphs=name, **options) for name in ("auto", "off")
        ]
        self.tolerance = tolerance

    def all(self, method, *args):
        return [getattr(session, method)(*args) for session in self.sessions]

    def step(self, tokens):
        recorded, eager = self.all("step", tokens)
        torch.testing.assert_close(recorded, eager, atol=self.tolerance, rtol=0)
        return recorded

    def start(self, lengths, max_len=20, seed=0):
        self.all("reset", max_len)
        self.all("add", tiny.random_batch(TASK, lengths, seed=seed)["net_input"])

    @property
    def graphs(self):
        return self.sessions[0].graphs


def token(n_rows, n_new=1):
    return random_targets(TASK, n_rows, n_new + 1)[:, 1:]


@pytest.mark.parametrize("precision", ["model", "bf16", "int8"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_precisions(precision, dtype, recorder, replays):
    exact = dtype == torch.float64 and precision == "model"
    twins = Twins(model_of().to(dtype), 1e-10 if exact else 0.1, precision=precision)
    twins.start([4, 9, 1])
    for _ in range(4):
        twins.step(token(3, 2))
        twins.all("commit", torch.tensor([2, 0, 1]))
    assert twins.graphs.active and list(replays.values()) == [3]


def test_a_step_is_recorded_once_its_shape_comes_again(recorder, replays, monkeypatch):
    monkeypatch.setattr(graphs, "OCCURRENCES", 3)
    twins = Twins(model_of())
    twins.start([4, 9])
    recorded = []
    for _ in range(5):
        twins.step(token(2))
        twins.all("commit", 1)
        recorded.append(len(recorder.tapes))
    assert recorded == [0, 0, 1, 1, 1]
    assert list(replays.values()) == [2]


def test_features_outlive_the_next_step(recorder):
    session = DecoderSession(model_of())
    session.reset(20)
    session.add(tiny.random_batch(TASK, [4, 9])["net_input"])
    session.step(token(2))
    first = session.step(token(2))
    before = first.clone()
    session.commit(1)
    session.step(token(2).flip(0))
    assert torch.equal(first, before)


def test_rows_that_grow_longer_are_recorded_anew(recorder, replays, monkeypatch):
    """The cache moves to where there is more room: what was recorded before must not be used."""
    monkeypatch.setattr(static_step, "GRANULE", 4)
    twins = Twins(model_of())
    places = set()
    for seed in range(2):
        twins.start([4, 9], max_len=40, seed=seed)
        for _ in range(30):
            twins.step(token(2))
            twins.all("commit", 1)
            places.add(twins.sessions[0].network.caches.rows.place)
    assert len(places) > 2
    # Once the cache has grown, the second batch needs nothing new for most of its way.
    assert len(recorder.tapes) < 2 * 30 / 4
    assert sum(replays.values()) > 40


def test_a_cache_that_moves_under_the_same_shape(recorder):
    """As it does for longer rows that others of the same shape follow."""
    twins = Twins(model_of())
    twins.start([4, 9])
    twins.step(token(2))
    (cache, _) = (session.network.caches.rows for session in twins.sessions)
    before = cache.place
    for session in twins.sessions:
        session.network.caches.rows.reserve(2, 500)
    assert cache.place != before
    for _ in range(2):
        twins.step(token(2))
        twins.all("commit", 1)
    assert len(recorder.tapes) == 2


def test_more_positions_are_prepared(recorder):
    twins = Twins(model_of())
    for max_len in (20, 300):
        twins.start([4, 9], max_len)
        for _ in range(2):
            twins.step(token(2))
            twins.all("commit", 1)
    assert len(recorder.tapes) == 2


@pytest.mark.parametrize("change", ["load", "cast"])
def test_recordings_follow_the_model(change, recorder):
    model = model_of()
    twins = Twins(model)
    for _ in range(2):
        twins.start([4, 6])
        for _ in range(2):
            twins.step(token(2))
        if change == "load":
            model.load_state_dict(tiny.stir(copy.deepcopy(model), seed=9).state_dict())
        else:
            model.double()
    assert len(recorder.tapes) == 2


def test_recordings_are_kept_from_batch_to_batch(recorder):
    twins = Twins(model_of())
    for seed, lengths in enumerate(([4, 6, 3], [7, 1, 2], [5, 5, 5, 5])):
        twins.start(lengths, seed=seed)
        for _ in range(3):
            twins.step(token(len(lengths)))
            twins.all("commit", 1)
    assert len(recorder.tapes) == 1


def test_no_more_are_kept_than_allowed(recorder, monkeypatch):
    twins = Twins(model_of())
    twins.graphs.max_graphs = 2
    twins.start([4, 6])
    for n_new, n_recorded in [(1, 1), (2, 2), (1, 2), (4, 3), (1, 3), (2, 4), (1, 4), (4, 5)]:
        twins.step(token(2, n_new))
        assert len(recorder.tapes) == n_recorded, "the one that rested longest went"
        assert twins.graphs.n_recorded <= 2


def test_shapes_that_do_not_come_again_are_not_remembered_forever(recorder, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_COUNTED", 3)
    monkeypatch.setattr(graphs, "OCCURRENCES", 9)
    twins = Twins(model_of())
    twins.start([4, 6])
    for n_new in (1, 2, 4, 8, 16):
        twins.step(token(2, n_new))
        assert len(twins.graphs._occurrences) <= 4
    assert not recorder.tapes


def test_large_steps_are_not_recorded(recorder, monkeypatch):
    monkeypatch.setattr(static_step, "MAX_TOKENS", 8)
    twins = Twins(model_of())
    twins.start([4, 6])
    twins.step(token(2, 5))
    assert not recorder.tapes
    twins.step(token(2, 4))
    assert len(recorder.tapes) == 1


class Refusing(TapeRecorder):
    """Captures as a GPU does that cannot."""

    def record(self, run, beside):
        super().record(run, beside)
        raise RuntimeError("operation not permitted when stream is capturing")


class Wrong(TapeRecorder):
    """Captures something else: the features of one row are not right."""

    def record(self, run, beside):
        return super().record(lambda: run() * torch.tensor([1.0, 1.02])[:, None, None], beside)


class NotANumber(TapeRecorder):
    """Captures what computes nothing."""

    def record(self, run, beside):
        tape = super().record(run, beside)
        tape.replay = lambda: None
        return tape


@pytest.mark.parametrize(
    "broken, message",
    [
        (Refusing, "RuntimeError: operation not permitted"),
        (Wrong, "a graph gave other numbers"),
        (NotANumber, "a graph gave other numbers"),
    ],
)
def test_decoding_goes_on_without_graphs_that_fail(broken, message, monkeypatch, caplog):
    broken = broken()
    monkeypatch.setitem(RECORDERS, "auto", lambda device: broken)
    monkeypatch.setattr(graphs, "OCCURRENCES", 2)
    model = model_of()
    twins = Twins(model)
    for seed in range(2):
        twins.start([4, 9], seed=seed)
        for _ in range(4):
            recorded, eager = twins.all("step", token(2, 2))
            assert torch.equal(recorded, eager)
            twins.all("commit", torch.tensor([2, 1]))
        model.load_state_dict(tiny.stir(copy.deepcopy(model), seed=9).state_dict())
    assert not twins.graphs.active and twins.graphs.n_recorded == 0
    assert len(broken.tapes) == 1
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert message in record.getMessage() and "--cuda-graphs off" in record.getMessage()


def test_what_a_capture_cannot_hold_is_refused():
    recorder = TapeRecorder()
    ones = torch.ones(3)
    for waits in (
        lambda: ones * ones.sum().item(),
        lambda: ones.nonzero().float(),
        lambda: ones[ones > 0],
    ):
        with pytest.raises(RuntimeError, match="when stream is capturing"):
            recorder.record(waits, None)


def test_on_a_cpu_nothing_is_recorded():
    session = DecoderSession(model_of())
    session.reset(20)
    assert not session.graphs.active
    assert cuda_recorder(torch.device("cpu")) is None


@given(st.integers(1, 5000))
def test_lengths_are_padded_little_and_to_few_sizes(n):
    padded = padded_length(n)
    assert n <= padded <= max(n + 31, 1.25 * n)
    assert padded % 32 == 0 and padded_length(padded) == padded


@given(st.data())
def test_steps_fit_in_their_shape(data):
    row_source = torch.tensor(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=20)))
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, 90), min_size=6, max_size=6)))
    layout = SourceLayout(row_source, lengths)
    rows = torch.arange(row_source.numel())
    assert layout.cell_row[layout.row_cell].tolist() == rows.tolist(), "cells are for one row each"
    assert (layout.row_cell // layout.n_per_source).tolist() == row_source.tolist()
    assert layout.n_keys >= int(lengths.max()) and layout.lengths.min() >= 1
    together, steps = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    state = RowState(torch.zeros_like(rows), 0, data.draw(st.integers(0, 300)), layout)
    shape = StepShape.fitting(state, together * steps, together)
    assert shape.n_rows >= row_source.numel() and shape.n_new >= together * steps
    assert shape.n_new % together == 0 and shape.n_keys >= state.longest + shape.n_new


def test_a_cache_stays_in_its_place_while_there_is_room():
    cache = KeyValueCache(1, 1, 2, torch.float32, torch.device("cpu"))
    cache.reserve(4, 32)
    place = cache.place
    cache.reserve(2, 32)
    cache.rearrange(torch.tensor([1, 0]), 5)
    assert cache.place == place
    cache.reserve(4, 33)
    assert cache.place != place


@pytest.mark.parametrize("granule", [2, 32])
def test_paused_rows_keep_what_they_have(granule, recorder, monkeypatch):
    """They are stepped along, and what that writes must not be seen, wherever they are."""
    monkeypatch.setattr(static_step, "GRANULE", granule)
    replay = Replay(model_of(), TASK, 1e-5)
    replay.add([9, 3], True, seed=1)
    replay.step(9, torch.tensor([9, 8]))
    replay.pause(2)
    replay.add([4, 6, 2], False, seed=2)
    for _ in range(3):
        replay.step(2, torch.tensor([2, 1, 0]))
    replay.pause(0)
    for _ in range(3):
        replay.step(2, torch.tensor([1, 2, 1, 2, 2]))
    assert len(recorder.tapes) < 6
