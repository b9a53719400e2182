"""Compiled code reads and writes nothing but what it was given, whatever it is given.

``scripts/sanitize.py`` runs these tests, too, where every access to memory is looked at.
"""

import ctypes
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fairseq_fastdec.engine import DecoderSession, TokenTree
from fairseq_fastdec.engine.kernels import problems, row_moves, structures
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.kernels.packed import PackedBFloat16, PackedInt8, PackedLinear
from fairseq_fastdec.engine.kernels.top_k import Limits, TopK
from fairseq_fastdec.engine.network.cache import KeyValueCache
from fairseq_fastdec.engine.network.compiled_encoder import CompiledEncoder
from fairseq_fastdec.engine.products.int8 import Int8Linear
from fairseq_fastdec.engine.products.linear import BFloat16Linear, PlainLinear
from tests.support import skips, tiny
from tests.support.compiled import threads
from tests.support.sessions import steps_by_torch

pytestmark = pytest.mark.skipif(library() is None, reason=skips.COMPILER)

TASK = tiny.task(20)
V = len(TASK.target_dictionary)
PAD, EOS, UNK = 1, 2, 3
NUMBERS = [-math.inf, -3e38, -1.0, 0.0, 1e-40, 1.0, 3e38, math.inf, math.nan]
FUZZ = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def session_of(model, lengths=(4, 2), **options):
    session = DecoderSession(model, **options)
    session.reset(30)
    session.add(tiny.random_batch(TASK, list(lengths))["net_input"])
    return session


def spoiled(model, draw):
    """Some of its parameters' numbers are no numbers, or too large to be summed up."""
    with torch.no_grad():
        for parameter in model.parameters():
            if draw.random() < 0.3:
                places = torch.tensor([draw.randrange(parameter.numel()) for _ in range(3)])
                numbers = torch.tensor([draw.choice(NUMBERS) for _ in range(3)])
                parameter.view(-1)[places] = numbers
    return model


@settings(FUZZ, max_examples=15)
@given(
    n_heads=st.sampled_from([1, 2, 3, 5]), head_dim=st.sampled_from([4, 6, 8, 16, 18, 34, 64]),
    hidden=st.integers(1, 70), lengths=st.lists(st.integers(1, 19), min_size=1, max_size=4),
    widths=st.lists(st.integers(1, 5), min_size=1, max_size=4), pre_norm=st.booleans(),
    gelu=st.booleans(), learned=st.booleans(), precision=st.sampled_from(["model", "bf16", "int8"]),
    registers=st.sampled_from([4, 8, 16]), n_threads=st.integers(1, 4), draw=st.randoms(),
)  # fmt: skip
def test_steps_of_any_model(
    n_heads, head_dim, hidden, lengths, widths, pre_norm, gelu, learned, precision, registers,
    n_threads, draw,
):  # fmt: skip
    """Of finite weights as torch has them; of others, without another thing being touched."""
    dim = n_heads * head_dim
    model = tiny.stir(
        tiny.build_model(
            TASK, encoder_embed_dim=dim, decoder_embed_dim=dim, encoder_attention_heads=n_heads,
            decoder_attention_heads=n_heads, encoder_ffn_embed_dim=hidden,
            decoder_ffn_embed_dim=hidden, decoder_normalize_before=pre_norm,
            activation_fn="gelu" if gelu else "relu", decoder_learned_pos=learned,
            max_target_positions=9,
        )
    )  # fmt: skip
    is_spoiled = draw.random() < 0.4
    if is_spoiled:
        spoiled(model, draw)
    library().set_width(registers)
    try:
        with threads(n_threads):
            steps_of(model, lengths, widths, precision, is_spoiled, draw)
    finally:
        library().set_width(16)


def steps_of(model, lengths, widths, precision, is_spoiled, draw):
    sessions = [session_of(model, lengths, precision=precision) for _ in range(3)]
    is_compiled = sessions[0].network.compiled is not None
    steps_by_torch(sessions[1])
    for n_new in widths:
        n_rows = sessions[0].n_rows
        tokens = torch.tensor([[draw.randrange(V) for _ in range(n_new)] for _ in range(n_rows)])
        ours, theirs = (session.step(tokens) for session in sessions[:2])
        if is_compiled and not is_spoiled:
            if precision == "model":
                torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
            assert torch.equal(ours, one_by_one(sessions[2], tokens))
        tokens[draw.randrange(n_rows), draw.randrange(n_new)] = draw.choice([-1, V, 2**40])
        for session in sessions:
            with pytest.raises(IndexError):
                session.step(tokens)
        kept = torch.tensor([draw.randrange(n_new + 1) for _ in range(n_rows)])
        rows = torch.tensor([draw.randrange(n_rows) for _ in range(draw.randrange(1, 7))])
        for session in sessions:
            session.commit(kept)
            session.select(rows)


def one_by_one(session, tokens):
    """The features of tokens that are fed one a step; afterwards none of them is committed."""
    features = []
    for token in tokens.split(1, dim=1):
        features.append(session.step(token))
        session.commit(1)
    session.commit(-tokens.size(1))
    return torch.cat(features, dim=1)


@settings(FUZZ, max_examples=60)
@given(
    parents=st.lists(st.integers(-3, 9), min_size=1, max_size=9), registers=st.sampled_from([4, 16])
)
def test_trees_of_any_parents(parents, registers):
    session = session_of(tiny.stir(tiny.build_model(TASK)), [4])
    tokens = torch.full((1, len(parents)), 5)
    tree = TokenTree(torch.tensor([parents]))
    library().set_width(registers)
    try:
        if all(-1 <= parent < index for index, parent in enumerate(parents)):
            ours = session.step(tokens, tree)
            steps_by_torch(session)
            torch.testing.assert_close(ours, session.step(tokens, tree), atol=1e-5, rtol=1e-5)
        else:
            with pytest.raises(ValueError, match="tree"):
                session.step(tokens, tree)
    finally:
        library().set_width(16)


def test_a_path_of_a_tree_that_is_too_deep():
    session = session_of(tiny.build_model(TASK), [4])
    for n in (64, 65):
        tree = TokenTree(torch.arange(-1, n - 1)[None])
        if n == 64:
            session.step(torch.full((1, n), 5), tree)
        else:
            with pytest.raises(ValueError, match="too many in a row"):
                session.step(torch.full((1, n), 5), tree)


@pytest.mark.parametrize("name", ["past", "row_source", "source_lengths"])
@pytest.mark.parametrize("wrong", [-1, 10**6, 2**62, -(2**63)])
def test_a_step_of_rows_and_sources_that_are_not_there(name, wrong):
    session = session_of(tiny.build_model(TASK))
    session.step(torch.full((2, 1), 5))
    given_ = dict(
        past=session.rows.lengths.clone(), row_source=session.rows.row_source.clone(),
        source_lengths=session.rows.source_lengths.clone(),
    )  # fmt: skip
    given_[name][1] = wrong
    with pytest.raises(IndexError, match="rows or sources"):
        step_of(session, torch.full((2, 1), 5), **given_)


def step_of(session, tokens, first_slot=0, past=None, row_source=None, source_lengths=None, **more):
    """A compiled step with other numbers than the session's own."""
    own = (session.rows.lengths, session.rows.row_source, session.rows.source_lengths)
    past, row_source, source_lengths = (
        mine if theirs is None else theirs
        for mine, theirs in zip(own, (past, row_source, source_lengths))
    )
    caches, positions = session.network.caches, session.forward_pass.positions
    compiled = session.network.compiled
    compiled.bind(
        (caches.rows, first_slot), past, caches.sources, row_source, source_lengths,
        more.get("positions", positions),
    )  # fmt: skip
    return compiled.step(tokens, more.get("parents"))


@pytest.mark.parametrize(
    "wrong",
    [
        dict(past=torch.zeros(3, dtype=torch.long)),
        dict(past=torch.zeros(2)),
        dict(past=torch.zeros(4, dtype=torch.long)[::2]),
        dict(row_source=torch.zeros(2, dtype=torch.int32)),
        dict(row_source=torch.zeros(1, dtype=torch.long)),
        dict(source_lengths=torch.zeros(2)),
        dict(parents=torch.full((2, 2), -1)),
        dict(parents=torch.full((2, 1), -1.0)),
        dict(positions=torch.zeros(9, 31)),
        dict(positions=torch.zeros(9, 32, dtype=torch.float64)),
        dict(positions=torch.zeros(9, 64)[:, ::2]),
    ],
)
def test_a_step_with_tensors_of_other_kinds(wrong):
    session = session_of(tiny.build_model(TASK))
    session.step(torch.full((2, 1), 5))
    with pytest.raises(ValueError, match="where compiled code reads"):
        step_of(session, torch.full((2, 1), 5), **wrong)
    with pytest.raises(ValueError, match="tokens: torch.int32"):
        step_of(session, torch.full((2, 1), 5, dtype=torch.int32))


def test_a_step_beyond_its_slots():
    session = session_of(tiny.build_model(TASK))
    session.step(torch.full((2, 1), 5))
    n_slots = session.network.caches.rows._data.size(2)
    for first in (-1, n_slots - 1, 2**40):
        with pytest.raises(IndexError, match="not there"):
            step_of(session, torch.full((2, 1), 5), first_slot=first)
    with pytest.raises(IndexError, match="longer than the memory"):
        step_of(session, torch.full((2, 100), 5))


def test_a_step_with_too_little_scratch_memory():
    """Compiled code refuses, and is given more as long as it says how much it needs."""
    session = session_of(tiny.build_model(TASK))
    network = session.network.compiled.network
    library = network._library
    lies = dict(vars(library), n_threads=1, step_scratch_size=lambda step: 1)
    network._library = SimpleNamespace(**lies)
    with pytest.raises(ValueError, match="scratch"):
        session.step(torch.full((2, 1), 5))
    network._library = library
    few = session.step(torch.full((2, 1), 5))
    many = session.step(torch.full((2, 9), 5))
    torch.testing.assert_close(many[:, :1], few)


@pytest.mark.parametrize("name", ["fc1", "fc2", "self_qkv", "cross_out"])
def test_a_model_whose_sizes_do_not_fit_together(name):
    session = session_of(tiny.build_model(TASK))
    getattr(session.network.compiled.network._layers[1], name).outputs += 32
    with pytest.raises(ValueError, match="sizes"):
        session.step(torch.full((2, 1), 5))


@pytest.mark.parametrize("number", [-1, structures.EPILOGUES.index("add"), 6, 2**40])
def test_an_activation_that_is_none(number):
    session = session_of(tiny.build_model(TASK))
    session.network.compiled.network.structure.model.activation = number
    with pytest.raises(ValueError, match="sizes"):
        session.step(torch.full((2, 1), 5))


@pytest.mark.parametrize("coder", ["encoder", "decoder"])
def test_a_feed_forward_layer_without_units(coder):
    """A checkpoint may say --decoder-ffn-embed-dim 0; it divided by zero."""
    model = tiny.stir(tiny.build_model(TASK, **{f"{coder}_ffn_embed_dim": 0}))
    session = session_of(model, [30, 3])
    features = session.step(torch.full((2, 20), 5))
    expected = tiny.random_batch(TASK, [30, 3])["net_input"]
    expected["prev_output_tokens"] = torch.full((2, 20), 5)
    theirs = model(**expected, features_only=True)[0]
    torch.testing.assert_close(features, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("coder", ["encoder", "decoder"])
def test_norms_of_another_dtype_are_left_to_torch(coder):
    """Of bf16 half as much memory is there as compiled code would read."""
    model = tiny.build_model(TASK)
    getattr(model, coder).layers[1].final_layer_norm.bfloat16()
    session = DecoderSession(model)
    session.reset(10)
    compiled = session._encode._compiled if coder == "encoder" else session.network.compiled
    assert compiled is None


@settings(FUZZ, max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    wrong=st.sampled_from([-1, 8, 2**40]),
    where=st.sampled_from(["lengths", "tokens", "nowhere"]), registers=st.sampled_from([4, 8, 16]),
    draw=st.randoms(),
)  # fmt: skip
def test_encoders(lengths, wrong, where, registers, draw):
    """Sources of no token have no states, but their neighbours' are their own."""
    session = session_of(tiny.stir(tiny.build_model(TASK)))
    encoder = session._encode._compiled
    assert isinstance(encoder, CompiledEncoder)
    tokens = torch.full((len(lengths), 7), 5)
    lengths = torch.tensor(lengths)
    row = draw.randrange(len(lengths))
    library().set_width(registers)
    try:
        states = encoder(tokens, lengths, session._encode._positions.table)
        longest = int(lengths[row])
        if longest:
            (alone,) = encoder(
                tokens[:1, :longest], lengths[row, None], session._encode._positions.table
            )
            assert torch.equal(states[row, :longest], alone)
        if where == "nowhere":
            return
        if where == "lengths":
            lengths[row] = wrong
        else:
            tokens[row, draw.randrange(7)] = V if wrong == 8 else wrong
        with pytest.raises(IndexError):
            encoder(tokens, lengths, session._encode._positions.table)
    finally:
        library().set_width(16)


@settings(FUZZ, max_examples=60)
@given(
    kind=st.sampled_from([PlainLinear, BFloat16Linear, Int8Linear]), n_tokens=st.integers(0, 21),
    n_inputs=st.integers(2, 70), n_outputs=st.integers(1, 140),
    registers=st.sampled_from([4, 8, 16]), n_threads=st.integers(1, 4),
    n_bad=st.integers(0, 3), in_weight=st.booleans(), draw=st.randoms(),
)  # fmt: skip
def test_products_of_any_numbers(
    kind, n_tokens, n_inputs, n_outputs, registers, n_threads, n_bad, in_weight, draw
):
    """A number that is none spoils its own outputs and no others."""
    generator = torch.Generator().manual_seed(draw.randrange(10**6))
    weight = torch.randn(n_outputs, n_inputs, generator=generator)
    x = torch.randn(n_tokens, n_inputs, generator=generator)
    library().set_width(registers)
    try:
        with threads(n_threads):
            expected = kind(weight)(x)
            spoilt = weight if in_weight else x
            rows = {draw.randrange(spoilt.size(0)) for _ in range(n_bad if spoilt.size(0) else 0)}
            for row in rows:
                spoilt[row, draw.randrange(n_inputs)] = draw.choice(NUMBERS)
            ours = kind(weight)(x)
    finally:
        library().set_width(16)
    assert ours.shape == (n_tokens, n_outputs)
    others = [row for row in range(spoilt.size(0)) if row not in rows]
    if in_weight:
        assert torch.equal(ours[:, others], expected[:, others])
    else:
        assert torch.equal(ours[others], expected[others])


def test_products_with_inputs_of_another_size():
    layer = PlainLinear(torch.zeros(5, 32))
    for shape in ((3, 64), (3, 16), (2, 3, 31)):
        with pytest.raises(ValueError, match="inputs of a layer that has 32"):
            layer(torch.zeros(shape))
    with pytest.raises(ValueError, match="outputs"):
        layer.packed(torch.zeros(3, 32), out=torch.zeros(30)[::2])


def test_layers_of_other_kinds():
    """Of no outputs or inputs they are torch's; with another bias there are none."""
    for shape in ((0, 4), (4, 0)):
        empty = torch.zeros(shape)
        assert PackedLinear.of(empty, None) is PackedBFloat16.of(empty, None) is None
        assert PackedInt8.of(empty.to(torch.int8), torch.zeros(shape[0]), None) is None
        x = torch.ones(3, shape[1])
        assert torch.equal(PlainLinear(empty)(x), F.linear(x, empty))
    for bias in (torch.zeros(3), torch.zeros(4, dtype=torch.float64)):
        with pytest.raises(ValueError, match="one number an output"):
            PlainLinear(torch.zeros(4, 4), bias)


@settings(FUZZ, max_examples=150)
@given(
    n_rows=st.integers(0, 5), n_types=st.integers(4, 200), n=st.integers(0, 210),
    normalize=st.booleans(), penalty=st.sampled_from([0.0, 0.5, math.inf, math.nan]),
    registers=st.sampled_from([4, 8, 16]), bad=st.integers(0, 4), threads=st.integers(1, 3),
    only=st.sampled_from([None, -1, 0, 3, 199, 200, -2, 2**62]), draw=st.randoms(),
)  # fmt: skip
def test_choices_of_any_scores(
    n_rows, n_types, n, normalize, penalty, registers, bad, threads, only, draw
):
    scores = torch.randn(n_rows, n_types, generator=torch.Generator().manual_seed(n_types))
    for _ in range(bad if n_rows else 0):
        scores[draw.randrange(n_rows), draw.randrange(n_types)] = draw.choice(NUMBERS)
    top_k = TopK.of((PAD,), EOS, UNK, penalty)
    limits = Limits()
    if only is not None:
        only_tokens, ends = np.full(n_rows, -1), np.full(n_rows, draw.random() < 0.2)
        only_tokens[n_rows // 2 :] = only
        limits = Limits(only_tokens, np.full(n_rows, draw.random() < 0.5), ends)
    before = torch.get_num_threads()
    library().set_width(registers)
    try:
        torch.set_num_threads(threads)
        if not 1 <= n <= n_types:
            with pytest.raises(ValueError, match="sizes"):
                top_k(scores, n, normalize, limits)
            return
        if n_rows and only is not None and not -1 <= only < n_types:
            with pytest.raises(IndexError, match="dictionary"):
                top_k(scores, n, normalize, limits)
            return
        best, tokens = top_k(scores, n, normalize, limits)
    finally:
        torch.set_num_threads(before)
        library().set_width(16)
    assert tokens.shape == best.shape == (n_rows, n)
    assert tokens.ge(0).all() and tokens.lt(n_types).all()
    there = best > -math.inf
    for own, is_there in zip(tokens.tolist(), there.tolist()):
        found = [token for token, there_ in zip(own, is_there) if there_]
        assert PAD not in found and len(set(found)) == len(found)


def test_choices_with_other_kinds_of_numbers():
    top_k = TopK.of((PAD,), EOS, UNK, 0.5)
    scores = torch.zeros(2, 9)
    for wrong in (
        dict(only=np.zeros(3, dtype=np.int64)),
        dict(only=np.zeros(2, dtype=np.int32)),
        dict(only=np.zeros(4, dtype=np.int64)[::2]),
        dict(no_end=np.zeros(1, dtype=bool)),
        dict(no_end=np.zeros(2, dtype=np.int64)),
        dict(has_to_end=np.zeros(3, dtype=bool)),
    ):
        with pytest.raises(ValueError, match="where compiled code reads"):
            top_k(scores, 2, True, Limits(**wrong))
    with pytest.raises(ValueError, match="scores: torch.float64"):
        top_k(scores.double(), 2, True)
    with pytest.raises(IndexError, match="dictionary"):  # there is no <unk> to be penalized
        top_k(scores[:, :3], 2, True)


@settings(FUZZ, max_examples=60)
@given(
    n_slots=st.integers(1, 5), order=st.lists(st.integers(-2, 7), min_size=1, max_size=7),
    few=st.sampled_from([0, 10**9]), length=st.integers(0, 3),
)  # fmt: skip
def test_rows_that_are_not_there_are_not_moved(n_slots, order, few, length):
    cache = KeyValueCache(2, 2, 4, torch.float32, torch.device("cpu"))
    cache.reserve(n_slots, 3)
    for layer in range(2):
        cache.write(layer, slice(0, n_slots), 0, torch.randn(n_slots, 3, 2, 2, 4))
    before = cache._data.clone()
    fits = len(order) <= n_slots and all(0 <= origin < n_slots for origin in order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_moves, "FEW_BYTES", few)
        if fits:
            cache.rearrange(torch.tensor(order), length)
        else:
            with pytest.raises(IndexError, match="not there"):
                cache.rearrange(torch.tensor(order), length)
            assert torch.equal(cache._data, before)


def test_caches_that_lie_otherwise_are_not_moved():
    data = torch.zeros(2, 2, 3, 4, 5, 6)
    order = torch.arange(2)
    mover = row_moves.RowMover.of(data.device)
    for wrong in (data.transpose(4, 5), data[:, :, :, :, :, :3], data[:, :1], data[0]):
        with pytest.raises(ValueError, match="a cache"):
            mover(wrong, order, 5)
    with pytest.raises(ValueError, match="order of rows"):
        mover(data, order.int(), 5)
    with pytest.raises(ValueError, match="sizes"):
        mover(data, order, 6)
    for first in (-1, 4, 2**62):
        with pytest.raises(IndexError, match="slot"):
            mover(data, order, 5, first)


@pytest.mark.parametrize("n_threads", [0, -1])
def test_no_threads(n_threads):
    layer = PlainLinear(torch.zeros(4, 4)).packed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(library()), "n_threads", n_threads)
        with pytest.raises(ValueError, match="sizes"):
            layer(torch.zeros(1, 4))


def test_structures_that_nobody_filled_in():
    """All zero: no function follows a null pointer."""
    functions = {
        structures.Step: library().run_step,
        structures.Product: library().multiply,
        structures.TopK: library().top_k,
        structures.Move: library().move_rows,
    }
    for structure, function in functions.items():
        with pytest.raises(ValueError, match="sizes"):
            problems.check(function(ctypes.byref(structure())))
    assert library().step_scratch_size(ctypes.byref(structures.Step())) == -3
