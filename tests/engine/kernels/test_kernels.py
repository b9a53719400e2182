"""The compiled step: what it does, what it leaves to torch, and how it is loading."""

import ctypes
import logging
import shutil
import struct
from ctypes import c_int

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.kernels import loading, packed, row_moves, structures
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.kernels.packed import PackedLinear
from fairseq_fastdec.engine.network import compiled_network
from fairseq_fastdec.engine.network.cache import KeyValueCache
from fairseq_fastdec.engine.products.linear import BFloat16Linear, Linear
from tests.support import skips, tiny
from tests.support.sessions import steps_by_torch

TASK = tiny.task(20)

compiled = pytest.mark.skipif(library() is None, reason=skips.COMPILER)
has_codes = library() is not None and library().has_codes
with_codes = pytest.mark.skipif(not has_codes, reason=skips.VNNI)
has_halves = library() is not None and library().has_halves
with_halves = pytest.mark.skipif(not has_halves, reason=skips.BF16)
PRECISIONS = [
    "model",
    pytest.param("bf16", marks=with_halves),
    pytest.param("int8", marks=with_codes),
]


def features_of(model, tokens, kept, lengths=(4, 6, 2), natively=True, **options):
    """Features of steps of ``tokens``, of which each row keeps some; three sentences."""
    session = DecoderSession(model, **options)
    session.reset(200)
    if not natively:
        steps_by_torch(session)
    session.add(tiny.random_batch(TASK, list(lengths))["net_input"])
    features = []
    for fed, n in zip(tokens, kept):
        features.append(session.step(fed).clone())
        session.commit(n)
    return features


def random_steps(widths=(1, 3, 2, 4), n_rows=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(4, 20, (n_rows, width), generator=generator) for width in widths]
    kept = [torch.randint(1, width + 1, (n_rows,), generator=generator) for width in widths]
    return tokens, kept


@compiled
@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(decoder_normalize_before=True),
        dict(activation_fn="gelu"),
        dict(decoder_learned_pos=True, max_target_positions=5),
        dict(no_token_positional_embeddings=True),
        dict(layernorm_embedding=True),
        # No multiples of what lies side by side in a packed weight or in a register.
        dict(encoder_embed_dim=44, decoder_embed_dim=44, decoder_ffn_embed_dim=50),
        dict(encoder_embed_dim=136, decoder_embed_dim=136, decoder_ffn_embed_dim=96),
        dict(encoder_embed_dim=292, decoder_embed_dim=292, decoder_ffn_embed_dim=96),
    ],
    ids=lambda options: ", ".join(options) or "post-norm",
)
def test_it_gives_what_torch_gives(options):
    model = tiny.stir(tiny.build_model(TASK, **options))
    tokens, kept = random_steps()
    own, expected = (
        features_of(model, tokens, kept, lengths=(4, 37, 2), natively=n) for n in (True, False)
    )
    for ours, theirs in zip(own, expected):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        assert not torch.equal(ours, theirs)  # or torch has computed both


@compiled
@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), max_size=2),
    n_inputs=st.integers(1, 70),
    n_outputs=st.integers(1, 140),
    biased=st.booleans(),
    strided=st.booleans(),
)
def test_products(shape, n_inputs, n_outputs, biased, strided):
    torch.manual_seed(n_inputs)
    weight = torch.randn(n_outputs, n_inputs)
    bias = torch.randn(n_outputs) if biased else None
    x = torch.randn(*shape, 2 * n_inputs)[..., ::2] if strided else torch.randn(*shape, n_inputs)
    expected = torch.nn.functional.linear(
        x.double(), weight.double(), bias.double() if biased else None
    )
    torch.testing.assert_close(Linear(weight, bias)(x).double(), expected, atol=1e-4, rtol=1e-4)


@with_halves
@settings(max_examples=60, deadline=None)
@given(
    n_tokens=st.integers(0, 18),
    n_inputs=st.integers(1, 70),
    n_outputs=st.integers(1, 140),
    biased=st.booleans(),
)
def test_products_in_bf16(n_tokens, n_inputs, n_outputs, biased):
    """Of rounded numbers; the sums and the bias are not rounded."""
    torch.manual_seed(n_inputs)
    weight, x = torch.randn(n_outputs, n_inputs), torch.randn(n_tokens, n_inputs)
    bias = torch.randn(n_outputs) if biased else None
    expected = x.bfloat16().double() @ weight.bfloat16().double().t()
    if biased:
        expected += bias.double()
    product = BFloat16Linear(weight, bias)
    assert product.packed is not None
    torch.testing.assert_close(product(x).double(), expected, atol=1e-4, rtol=1e-4)


@compiled
def test_gelu_of_large_and_small_numbers():
    """Of both signs, where it is all but 0, x / 2 and x."""
    model = tiny.stir(tiny.build_model(TASK, activation_fn="gelu"), scale=2.0)
    tokens, kept = random_steps()
    own, expected = (features_of(model, tokens, kept, natively=n) for n in (True, False))
    for ours, theirs in zip(own, expected):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-5)


@compiled
def test_products_of_other_numbers():
    assert PackedLinear.of(torch.zeros(4, 4, dtype=torch.float64), None) is None
    assert PackedLinear.of(torch.zeros(4, 4, device="meta"), None) is None
    with pytest.raises(TypeError, match="float64 where fp32"):
        Linear(torch.zeros(4, 4))(torch.zeros(4, dtype=torch.float64))


@compiled
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_threads_change_nothing(threads, precision, pre_norm):
    options = dict(decoder_normalize_before=pre_norm, decoder_embed_dim=96, encoder_embed_dim=96)
    model = tiny.stir(tiny.build_model(TASK, **options))
    tokens, kept = random_steps()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = features_of(model, tokens, kept, precision=precision)
        torch.set_num_threads(threads)
        for _ in range(10):
            together = features_of(model, tokens, kept, precision=precision)
            assert all(map(torch.equal, together, alone))
    finally:
        torch.set_num_threads(before)


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_token_is_computed_alike_alone_and_with_others(precision):
    """Blockwise decoding verifies in one step what greedy decoding finds in several."""
    model = tiny.stir(tiny.build_model(TASK))
    tokens = random_steps([6])[0][0]
    (together,) = features_of(model, [tokens], [6], precision=precision)
    alone = features_of(model, tokens.split(1, dim=1), [1] * 6, precision=precision)
    assert torch.equal(torch.cat(alone, dim=1), together)
    (first,) = features_of(model, [tokens[:1]], [6], lengths=(4,), precision=precision)
    (among_others,) = features_of(model, [tokens], [6], lengths=(4, 4, 4), precision=precision)
    assert torch.equal(first[0], among_others[0])


@compiled
@pytest.mark.parametrize(
    "options, precision",
    [
        (dict(dtype=torch.float64), "model"),
        (dict(dtype=torch.bfloat16), "model"),
        (dict(scale_attn=True), "model"),
        (dict(scale_fc=True), "model"),
        (dict(scale_resids=True), "model"),
        (dict(decoder_output_dim=28), "model"),
        (dict(activation_fn="tanh"), "model"),
    ],
    ids=str,
)
def test_what_is_left_to_torch(options, precision):
    model = tiny.build_model(TASK, **options)
    session = DecoderSession(model, precision)
    session.reset(10)
    assert session.network.compiled is None


@compiled
@pytest.mark.parametrize("precision, has", [("bf16", "has_halves"), ("int8", "has_codes")])
def test_what_the_processor_has_no_instructions_for(precision, has, monkeypatch):
    monkeypatch.setattr(library(), has, False)
    session = DecoderSession(tiny.build_model(TASK), precision, equal_steps=True)
    session.reset(10)
    assert session.network.compiled is None
    assert session.network.caches.rows.dtype == torch.float64


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
def test_steps_of_many_tokens(precision):
    """Also of more than there is scratch memory kept for."""
    model = tiny.stir(tiny.build_model(TASK, decoder_ffn_embed_dim=3 * 4096))
    tokens = torch.randint(4, 20, (3, 150))
    options = dict(lengths=(4, 6, 2), precision=precision)
    (together,) = features_of(model, [tokens], [1], **options)
    alone = features_of(model, tokens.split(50, dim=1), [50] * 3, **options)
    assert torch.equal(torch.cat(alone, dim=1), together)
    if precision == "model":
        (by_torch,) = features_of(model, [tokens], [1], natively=False, **options)
        torch.testing.assert_close(together, by_torch, atol=1e-4, rtol=1e-4)


@compiled
def test_other_models_in_fp32_are_computed_by_it():
    session = DecoderSession(tiny.build_model(TASK, dtype=torch.float16), "fp32")
    session.reset(10)
    assert session.network.compiled is not None


@pytest.mark.parametrize("arch", ["transformer", "blockwise_transformer"])
def test_logits(arch):
    """Those of p_1, in the same memory if that is enough."""
    session = DecoderSession(tiny.stir(tiny.build_model(TASK, arch)))
    session.reset(10)
    session.add(tiny.random_batch(TASK, [4, 6, 2])["net_input"])
    for n_rows in (2, 3, 1):
        features = session.step(torch.randint(4, 20, (3, 2)))[:n_rows]
        logits = session.logits(features)
        assert torch.equal(logits, session.project(features)[:, :, 0])
        assert session.logits(features[:, 0]).shape == (n_rows, len(TASK.target_dictionary))
    if library() is not None and arch == "transformer":
        features = session.step(torch.randint(4, 20, (3, 2)))
        largest = session.logits(features).data_ptr()
        assert session.logits(features[:1]).data_ptr() == largest


@compiled
def test_trained_parameters_are_followed():
    model = tiny.stir(tiny.build_model(TASK))
    session = DecoderSession(model)
    tokens, batch = torch.full((1, 2), 5), tiny.random_batch(TASK, [4])

    def step():
        session.reset(10)
        session.add(batch["net_input"])
        return session.step(tokens)

    before = step()
    model.load_state_dict(dict(tiny.stir(tiny.build_model(TASK, seed=3)).state_dict()))
    after = step()
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, features_of(model, [tokens], [2], lengths=(4,))[0])


@compiled
@pytest.mark.parametrize("token", [-1, 10**6])
def test_tokens_beyond_the_dictionary(token):
    session = DecoderSession(tiny.build_model(TASK))
    session.reset(10)
    session.add(tiny.random_batch(TASK, [4])["net_input"])
    with pytest.raises(IndexError, match="dictionary"):
        session.step(torch.tensor([[token]]))


@compiled
def test_where_torch_has_other_threads_it_has_one(monkeypatch):
    """Not libgomp's, whose pool it would share: Intel's, for example, or macOS's."""
    monkeypatch.setattr(library(), "threads", None)
    model = tiny.stir(tiny.build_model(TASK))
    tokens, kept = random_steps()
    alone = features_of(model, tokens, kept)
    monkeypatch.undo()
    assert all(map(torch.equal, features_of(model, tokens, kept), alone))


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """The library is looked for in an empty folder."""
    monkeypatch.setattr(loading, "__file__", str(tmp_path / "loading.py"))
    return tmp_path / f"_kernels{loading.EXTENSION_SUFFIXES[0]}"


def test_without_a_library_there_is_none(elsewhere):
    assert loading.library.__wrapped__() is None


@pytest.fixture()
def not_built(elsewhere, monkeypatch):
    """As after an installation without a compiler."""
    for module in (compiled_network, packed):
        monkeypatch.setattr(module, "library", loading.library.__wrapped__)
    loading.note_what_is_missed.cache_clear()
    yield
    loading.note_what_is_missed.cache_clear()


def test_models_that_miss_compiled_code_are_told_once(not_built, caplog):
    for seed in (0, 1):
        DecoderSession(tiny.build_model(TASK, seed=seed)).reset(9)
    (said,) = [record.message for record in caplog.records if "compile" in record.message]
    assert "Install a C++ compiler" in said and "the package again" in said


@pytest.mark.parametrize(
    "options", [dict(dtype=torch.float64), dict(activation_fn="tanh")], ids=["fp64", "tanh"]
)
def test_models_that_compiled_code_is_not_for_miss_nothing(not_built, caplog, options):
    DecoderSession(tiny.build_model(TASK, **options)).reset(9)
    assert not [record for record in caplog.records if "compile" in record.message]


def test_a_library_that_cannot_be_loaded_is_not_called_missing(not_built, elsewhere, caplog):
    elsewhere.write_bytes(b"")
    loading.note_what_is_missed()
    assert not caplog.records


@compiled
def test_compiled_code_moves_what_lies_on_a_cpu(monkeypatch):
    made = []
    monkeypatch.setattr("fairseq_fastdec.engine.network.cache.Mover", made.append)
    KeyValueCache(1, 1, 4, torch.float32, torch.device("meta"))
    assert not made
    KeyValueCache(1, 1, 4, torch.float32, torch.device("cpu"))
    assert made == [library()]


def copied(elsewhere):
    built = loading.Path(packed.__file__).parent / elsewhere.name
    shutil.copy(built, elsewhere)
    return elsewhere


@compiled
@pytest.mark.parametrize("structure", range(len(structures.ALL)))
def test_a_library_of_other_sources_is_not_used(structure, elsewhere, monkeypatch, caplog):
    """Each of the structures that are shared with it tells."""
    copied(elsewhere)
    assert loading.library.__wrapped__() is not None
    everything = list(structures.ALL)
    everything[structure] = type("Longer", (ctypes.Structure,), dict(_fields_=[("x", 999 * c_int)]))
    monkeypatch.setattr(structures, "ALL", tuple(everything))
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "built from other sources; decoding is slower without" in caplog.text


@compiled
@pytest.mark.parametrize("left", [0, 10, 63, 64, 4096, 0.5, 0.9, -1])
def test_a_library_that_was_cut_short_is_not_used(left, elsewhere, monkeypatch, caplog):
    """It would be mapped, and reading what is missing ends the process (SIGBUS)."""
    content = copied(elsewhere).read_bytes()
    elsewhere.write_bytes(content[: int(left * len(content)) if 0 < left < 1 else left])
    if left in (0, 10):
        # Of these the system's loader knows.
        monkeypatch.undo()
        with pytest.raises((OSError, ValueError)):
            loading.Library(elsewhere)
        return
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "cut short" in caplog.text and "Install the package again" in caplog.text


@compiled
def test_a_library_without_its_last_segment_is_not_used(elsewhere):
    """Also one that was stripped of the table of sections, which is at the end of others."""
    content = bytearray(copied(elsewhere).read_bytes())
    (sections,) = struct.unpack_from("<Q", content, 40)
    struct.pack_into("<Q", content, 40, 0)  # where the table begins
    struct.pack_into("<H", content, 60, 0)  # and how many there are
    elsewhere.write_bytes(content[:sections])
    loading.check_complete(elsewhere)
    elsewhere.write_bytes(content[:5000])
    with pytest.raises(ValueError, match="cut short"):
        loading.check_complete(elsewhere)


def test_a_library_for_another_machine_is_not_used(elsewhere, caplog):
    elsewhere.write_bytes(b"\x7fELF of another kind")
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "Install the package again" in caplog.text


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("few", [0, 10**9], ids=["threads", "alone"])
@settings(max_examples=30, deadline=None)
@given(
    n_slots=st.integers(1, 9), first=st.integers(0, 3), length=st.integers(0, 5),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_rows_move_as_torch_moves_them(dtype, few, n_slots, first, length, seed):
    generator = torch.Generator().manual_seed(seed)
    caches = [KeyValueCache(3, 2, 4, dtype, torch.device("cpu")) for _ in range(2)]
    content = torch.randn(3, n_slots + first, 5, 2, 2, 4, generator=generator).to(dtype)
    for cache in caches:
        cache.reserve(n_slots + first, 5)
        for layer in range(3):
            cache.write(layer, slice(0, n_slots + first), 0, content[layer])
    caches[1]._mover = None
    order = torch.randint(0, n_slots, (n_slots,), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_moves, "FEW_BYTES", few)
        for cache in caches:
            cache.rearrange(order, length, first)
    assert torch.equal(caches[0]._data, caches[1]._data)
