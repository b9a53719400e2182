"""The engine's truth: any split into steps gives the logits of the plain full forward pass."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.session.source_groups import SourceGroups
from tests.support import tiny
from tests.support.full_forward import ARCHITECTURES, TOLERANCE, full_logits, random_targets
from tests.support.replay import Replay, fuzz
from tests.support.sessions import steps_by_torch


@pytest.mark.parametrize("kind", ["fp32", "fp32, nothing compiled", "fp64"])
@pytest.mark.parametrize("options", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_every_split_gives_the_full_forward_logits(options, kind, true_double, request):
    dtype = torch.float64 if kind == "fp64" else torch.float32
    if kind == "fp32, nothing compiled":
        request.getfixturevalue("nothing_compiled")
    task = tiny.task(20)
    model = tiny.stir(tiny.build_model(task, dtype=dtype, **options))

    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(model, task, data.draw, TOLERANCE[dtype])

    check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize(
    "options",
    [{}, dict(decoder_normalize_before=True, layernorm_embedding=True)],
    ids=["post-norm", "pre-norm"],
)
def test_every_split_into_pairs_gives_the_full_forward_logits(options, dtype, true_double):
    """The two tokens of a step see each other, and in training as in decoding no later ones."""
    task = tiny.double_token_task()
    model = tiny.build_model(task, "double_token_transformer", dtype=dtype, **options)
    tiny.stir(model)

    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(model, task, data.draw, TOLERANCE[dtype], unit=2)

    check()


def test_separate_dictionaries(true_double):
    task = tiny.task(20, target_words=33)
    model = tiny.stir(tiny.build_model(task, dtype=torch.float64))

    @settings(max_examples=10, deadline=None)
    @given(st.data())
    def check(data):
        fuzz(model, task, data.draw, 1e-10)

    check()


def test_beams_share_their_source(true_double):
    """Rows of one source, in order (a view) or in any order and number (a scattered grid)."""
    task = tiny.task(20)
    model = tiny.stir(tiny.build_model(task, dtype=torch.float64))
    for rows in ([0, 0, 0, 1, 1, 1, 2, 2, 2], [2, 0, 1, 0, 2, 2], [1, 1, 1], [2, 1, 0]):
        replay = Replay(model, task, 1e-10)
        replay.add([3, 7, 5], True, seed=4)
        replay.step(2, torch.tensor([2, 1, 2]))
        replay.select(torch.tensor(rows))
        replay.step(3, torch.arange(len(rows)) % 4)
        replay.step(1, torch.ones(len(rows), dtype=torch.long))


def test_rolled_back_tokens_leave_no_trace():
    """What was fed and not kept must not reach later steps, whatever it was."""
    task = tiny.task(20)
    model = tiny.stir(tiny.build_model(task))
    batch = tiny.random_batch(task, [4, 6])
    session = DecoderSession(model)

    def logits_after(rejected):
        session.reset(20)
        session.add(batch["net_input"])
        session.step(torch.full((2, 1), 2))
        session.commit(1)
        if rejected:
            session.step(torch.tensor([[7, 8, 9], [10, 11, 12]]))
            session.commit(0)
        return session.project(session.step(torch.tensor([[5], [6]])))

    assert torch.equal(logits_after(rejected=True), logits_after(rejected=False))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_half_precision_is_as_near_as_its_rounding(dtype):
    task = tiny.task(20)
    model = tiny.stir(tiny.build_model(task, dtype=dtype))
    batch = tiny.random_batch(task, [4, 7])
    tokens = random_targets(task, 2, 9)
    session = DecoderSession(model)
    session.reset(20)
    session.add(batch["net_input"])
    parts = []
    for start in range(0, 9, 3):
        parts.append(session.project(session.step(tokens[:, start : start + 3]))[..., 0, :])
        session.commit(3)
    logits = torch.cat(parts, dim=1)
    assert logits.dtype == dtype
    exact = full_logits(model.float(), batch, tokens)
    scale = exact.abs().max() * torch.finfo(dtype).eps
    assert (logits.float() - exact).abs().max() < 16 * scale


def test_a_watched_model_can_be_copied():
    """fairseq's --store-ema deep-copies the model in training; the copy is watched by itself."""
    task = tiny.task(20)
    model = tiny.build_model(task)
    sessions = [DecoderSession(model) for _ in range(2)]
    for session in sessions:
        session.reset(20)
    twin = copy.deepcopy(model)
    weights = sessions[0].weights
    twin(**tiny.random_batch(task, [4])["net_input"])
    twin.load_state_dict(tiny.stir(copy.deepcopy(twin)).state_dict())
    other = DecoderSession(twin)
    other.reset(20)
    assert not torch.equal(other.weights.embed, weights.embed)


def test_more_tokens_than_the_trained_sinusoidal_positions():
    """Sinusoidal positions go on, as in fairseq; only the generators' limits stop them."""
    task = tiny.task(20)
    model = tiny.build_model(task, max_target_positions=16)
    tokens = random_targets(task, 1, 300)
    batch = tiny.random_batch(task, [4])
    session = DecoderSession(model)
    session.reset(300)
    session.add(batch["net_input"])
    logits = session.project(session.step(tokens))[..., 0, :]
    torch.testing.assert_close(logits, full_logits(model, batch, tokens), atol=1e-5, rtol=0)


@pytest.mark.parametrize("change", ["train", "load", "cast"])
def test_prepared_weights_follow_the_model(change):
    """--eval-bleu keeps one generator through the whole training."""
    task = tiny.task(20)
    model = tiny.stir(tiny.build_model(task))
    batch = tiny.random_batch(task, [4, 6])
    tokens = random_targets(task, 2, 5)
    session = DecoderSession(model)

    def logits():
        session.reset(20)
        session.add(batch["net_input"])
        return session.project(session.step(tokens))[..., 0, :]

    before = logits()
    if change == "train":
        tiny.train(model, task, updates=1)
    elif change == "load":
        model.load_state_dict(tiny.stir(copy.deepcopy(model), seed=9).state_dict())
    else:
        model.double()
    after = logits()
    expected = full_logits(model, batch, tokens)
    torch.testing.assert_close(after, expected, atol=1e-5, rtol=0)
    if change != "cast":
        assert (after - before).abs().max() > 1e-3


def test_an_unchanged_model_is_prepared_once():
    task = tiny.task(20)
    session = DecoderSession(tiny.build_model(task))
    session.reset(20)
    prepared = session.weights
    session.add(tiny.random_batch(task, [4])["net_input"])
    session.step(torch.tensor([[2]]))
    session.reset(20)
    assert session.weights is prepared


def test_sources_without_rows_leave_and_the_rest_stay_right():
    task = tiny.task(20)
    replay = Replay(tiny.stir(tiny.build_model(task)), task, 1e-5)
    replay.add([9, 3, 5, 2], True, seed=1)
    replay.step(2, torch.tensor([2, 0, 1, 2]))
    replay.select(torch.tensor([3, 1]))
    assert replay.session.rows.source_lengths.tolist() == [3, 4]
    replay.step(2, torch.tensor([1, 2]))
    replay.add([6], False, seed=2)
    replay.step(3, torch.tensor([1, 2, 3]))


def test_paused_rows_cost_nothing_and_come_back():
    task = tiny.task(20)
    replay = Replay(tiny.stir(tiny.build_model(task)), task, 1e-5)
    replay.add([9, 3], True, seed=1)
    replay.step(2, torch.tensor([2, 1]))
    replay.pause(2)
    replay.add([4, 6], False, seed=2)
    steps_by_torch(replay.session)
    sources = SourceGroups(replay.session.network.caches).keys(replay.session.rows)
    assert (sources.slots.start, sources.n_keys) == (2, 7)
    replay.step(3, torch.tensor([3, 3]))
    replay.select(torch.tensor([1, 1, 0, 1]))
    replay.pause(3)
    replay.step(1, torch.tensor([1, 0, 1]))
    replay.pause(0)
    replay.step(2, torch.tensor([1, 1, 2, 0, 2, 1]))


def test_before_reset_there_are_no_rows_and_no_weights():
    """Whatever needs weights names the call that is missing; everything else works on no rows."""
    session = DecoderSession(tiny.build_model(tiny.task(20)))
    nothing = torch.zeros(0, dtype=torch.long)
    session.commit(1)
    session.commit(nothing)
    session.pause(0)
    assert session.n_rows == session.rows.longest == 0
    assert (session.block_size, session.tokens_per_step) == (0, 1)
    assert not session.graphs.active and session.graphs.n_recorded == 0
    net_input = tiny.random_batch(tiny.task(20), [4])["net_input"]
    features = torch.zeros(1, 32)
    for use in (
        lambda: session.weights,
        lambda: session.heads,
        lambda: session.forward_pass,
        lambda: session.add(net_input),
        lambda: session.select(nothing),
        lambda: session.project(features),
        lambda: session.logits(features),
        lambda: session.spread(features),
    ):
        with pytest.raises(RuntimeError, match=r"no weights yet; call reset\(max_len\) first"):
            use()
    with pytest.raises(RuntimeError, match="no rows for a step; call reset and add first"):
        session.step(torch.zeros(0, 1, dtype=torch.long))


def test_no_rows():
    """After the reset, where all rows rest, and where all have left."""
    task = tiny.task(20)
    replay = Replay(tiny.stir(tiny.build_model(task)), task, 1e-5)
    session = replay.session

    def check_no_rows():
        assert session.n_rows == 0
        with pytest.raises(RuntimeError, match="no rows for a step; call reset and add first"):
            session.step(torch.zeros(0, 2, dtype=torch.long))
        session.commit(1)
        session.commit(torch.zeros(0, dtype=torch.long))

    check_no_rows()
    replay.add([4, 6], True, seed=1)
    replay.step(2, torch.tensor([2, 1]))
    replay.pause(2)
    check_no_rows()
    replay.pause(0)
    replay.step(2, torch.tensor([2, 1]))
    replay.select(torch.zeros(0, dtype=torch.long))
    check_no_rows()
    assert session.rows.n_sources == 0
    replay.add([3], True, seed=2)
    replay.step(2, torch.tensor([2]))
