"""The compiled step: what it computes, and what it leaves to torch."""

import logging
import math

import pytest
import torch

from fairseq_fastdec.engine import DecoderSession, TokenTree
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.engine.kernels.loading import library
from tests.support import tiny
from tests.support.at_once import at_once
from tests.support.compiled import PRECISIONS, compiled, threads, with_int8
from tests.support.sessions import steps_by_torch

TASK = tiny.task(20)


def features_of(model, tokens, kept, lengths=(4, 6, 2), by_torch=False, **options):
    """Features of steps of ``tokens``, of which each row keeps some; three sentences."""
    session = DecoderSession(model, **options)
    session.reset(200)
    if by_torch:
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
        dict(activation_fn="gelu_accurate"),
        dict(activation_fn="tanh"),
        dict(activation_fn="linear", decoder_normalize_before=True),
        dict(scale_attn=True),
        dict(scale_fc=True, scale_resids=True, decoder_normalize_before=True),
        dict(scale_attn=True, scale_fc=True, scale_heads=True, scale_resids=True),
        dict(decoder_output_dim=28),
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
        features_of(model, tokens, kept, lengths=(4, 37, 2), by_torch=b) for b in (False, True)
    )
    for ours, theirs in zip(own, expected):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        assert not torch.equal(ours, theirs)  # or torch has computed both


@compiled
@pytest.mark.parametrize("activation", ["gelu", "gelu_accurate", "tanh"])
def test_activations_of_large_and_small_numbers(activation):
    """Of both signs, where GELU is all but 0, x / 2 and x, and a tangent -1 and 1."""
    model = tiny.stir(tiny.build_model(TASK, activation_fn=activation), scale=2.0)
    tokens, kept = random_steps()
    own, expected = (features_of(model, tokens, kept, by_torch=b) for b in (False, True))
    for ours, theirs in zip(own, expected):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-5)


@compiled
@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_threads_change_nothing(n_threads, precision, pre_norm):
    options = dict(decoder_normalize_before=pre_norm, decoder_embed_dim=96, encoder_embed_dim=96)
    model = tiny.stir(tiny.build_model(TASK, **options))
    tokens, kept = random_steps()
    with threads(1):
        alone = features_of(model, tokens, kept, precision=precision)
    with threads(n_threads):
        for _ in range(10):
            together = features_of(model, tokens, kept, precision=precision)
            assert all(map(torch.equal, together, alone))


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
def test_two_threads_decode_at_once_with_one_model(precision):
    """Each has a session of its own; their weights are the same memory."""
    model = tiny.stir(tiny.build_model(TASK))

    def decoding(n_rows, seed):
        sources = [3 + (seed + row) % 5 for row in range(n_rows)]
        tokens, kept = random_steps([1, 3, 2] * 4, n_rows, seed)

        def decode():
            session = DecoderSession(model, precision)
            logits = []
            for _ in range(3):
                session.reset(40)
                session.add(tiny.random_batch(TASK, sources)["net_input"])
                for fed, n in zip(tokens, kept):
                    logits.append(session.project(session.step(fed)))
                    session.commit(n)
            return logits

        return decode

    decodings = [decoding(9, seed=1), decoding(4, seed=2)]
    alone = [decode() for decode in decodings]
    for found, expected in zip(at_once(*decodings), alone):
        assert all(map(torch.equal, found, expected))


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
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("place", range(1, 7))
def test_a_token_of_no_numbers_leaves_those_before_it_alone(place, precision):
    """Several tokens load the same keys; a later one's are not among an earlier one's."""
    model = tiny.stir(tiny.build_model(TASK))
    tokens = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
    unknown = 15
    with torch.no_grad():
        model.decoder.embed_tokens.weight[unknown] = math.nan
    spoiled = tokens.clone()
    spoiled[0, place] = unknown
    whole, part = (
        features_of(model, [fed], [1], lengths=(9,), precision=precision)[0]
        for fed in (tokens, spoiled)
    )
    assert torch.equal(part[:, :place], whole[:, :place])
    assert part[:, place].isnan().all()


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_path_of_a_tree_is_computed_like_its_tokens_alone(precision):
    model = tiny.stir(tiny.build_model(TASK))
    tokens, parents = torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([[-1, 0, 0, 2, -1]])
    session = session_with_past(model, precision)
    of_tree = session.step(tokens, TokenTree(parents))
    for path in ([0, 1], [0, 2, 3], [4]):
        session = session_with_past(model, precision)
        assert torch.equal(session.step(tokens[:, path]), of_tree[:, path])
    # What is kept of a tree is what was computed, to the bit.
    session = session_with_past(model, precision)
    session.step(tokens, TokenTree(parents))
    session.commit(3, torch.tensor([[0, 2, 3]]))
    after_tree = session.step(torch.tensor([[11]]))
    session = session_with_past(model, precision)
    session.step(tokens[:, [0, 2, 3]])
    session.commit(3)
    assert torch.equal(session.step(torch.tensor([[11]])), after_tree)


def session_with_past(model, precision):
    session = DecoderSession(model, precision)
    session.reset(30)
    session.add(tiny.random_batch(TASK, [6])["net_input"])
    session.step(torch.arange(4, 13)[None])
    session.commit(9)
    return session


SPECIAL = [
    0.0, -0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8, 3e-40, -1e-45,
    3.39e38, -3.4e38, math.inf, -math.inf, math.nan, 0.1, -1 / 3,
]  # fmt: skip


@with_int8
def test_keys_and_values_are_rounded_as_torch_rounds():
    """Those that are not half-way between two numbers, and those that are; NaN stays NaN."""
    model = tiny.stir(tiny.build_model(TASK))
    attention = model.decoder.layers[0].self_attn
    special = torch.tensor(SPECIAL).repeat(attention.embed_dim // len(SPECIAL))
    with torch.no_grad():
        for projection in (attention.k_proj, attention.v_proj):
            projection.weight.zero_()
            projection.bias.copy_(special)
    session = DecoderSession(model, "int8")
    session.reset(30)
    session.add(tiny.random_batch(TASK, [6])["net_input"])
    session.step(torch.tensor([[5, 6]]))
    for stored in session.network.caches.rows.read(0, slice(0, 1), 2):
        stored = stored[0].transpose(0, 1).flatten(1)
        expected = special.bfloat16().expand(2, -1)
        assert torch.equal(stored.isnan(), expected.isnan())
        assert torch.equal(stored[~stored.isnan()], expected[~expected.isnan()])


@compiled
@pytest.mark.parametrize("precision", PRECISIONS[1:])
@pytest.mark.parametrize("dim", [12, 24, 32, 64, 128, 192])
def test_keys_and_values_in_bf16_give_what_torch_makes_of_them(precision, dim):
    """Of heads with vectors of every width, and with numbers behind the last."""
    model = tiny.stir(
        tiny.build_model(
            TASK, encoder_embed_dim=dim, decoder_embed_dim=dim, encoder_attention_heads=2,
            decoder_attention_heads=2, decoder_layers=1,
        )
    )  # fmt: skip
    tokens, kept = random_steps((1, 20, 2, 4))
    own, expected = (
        features_of(model, tokens, kept, (4, 37, 2), by_torch, precision=precision)
        for by_torch in (False, True)
    )
    for ours, theirs in zip(own, expected):
        # Inputs of products are rounded; a sum that rounds otherwise may change such a one.
        assert (ours - theirs).abs().mean() < 2e-3
        assert not torch.equal(ours, theirs)  # or torch has computed both


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_keys_and_values_are_rounded_where_nothing_is_compiled(precision, nothing_compiled):
    session = DecoderSession(tiny.build_model(TASK), precision, equal_steps=True)
    session.reset(30)
    session.add(tiny.random_batch(TASK, [6, 3])["net_input"])
    session.step(torch.tensor([[5, 6], [7, 8]]))
    session.commit(torch.tensor([1, 2]))
    session.step(torch.tensor([[5, 6], [7, 8]]))
    for cache, length in ((session.network.caches.rows, 3), (session.network.caches.sources, 6)):
        assert cache.dtype == torch.float64
        for stored in cache.read(1, slice(0, 2), length):
            assert stored.abs().sum() > 0
            assert torch.equal(stored, stored.bfloat16().double())


@compiled
@pytest.mark.parametrize(
    "options, precision",
    [
        (dict(dtype=torch.float64), "model"),
        (dict(dtype=torch.bfloat16), "model"),
        (dict(activation_fn=torch.sigmoid), "model"),
        (dict(activation_fn=torch.sigmoid), "int8"),
        (dict(fc1=torch.nn.Linear(32, 48), fc2=torch.nn.Linear(48, 32)), "model"),
    ],
    ids=["fp64", "bf16", "sigmoid", "sigmoid in int8", "another width"],
)
def test_what_is_left_to_torch(options, precision):
    """Other numbers, and what a model of one's own may have in its last layer."""
    dtype = options.get("dtype", torch.float32)
    model = tiny.build_model(TASK, dtype=dtype)
    for name, part in options.items():
        setattr(model.decoder.layers[-1], name, part)
    session = DecoderSession(model, precision)
    session.reset(10)
    assert session.network.compiled is None


@compiled
@pytest.mark.parametrize("precision, has", [("bf16", "has_bf16"), ("int8", "has_int8")])
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
        (by_torch,) = features_of(model, [tokens], [1], by_torch=True, **options)
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
def test_a_step_uses_the_threads_that_it_has_work_for(caplog):
    """And no thread that would only be waited for."""
    caplog.set_level(logging.DEBUG)
    model = tiny.build_model(TASK)

    def n_threads():
        loading.log_threads.cache_clear()
        caplog.clear()
        for _ in range(2):
            features_of(model, [torch.full((3, 1), 5)], [1])
        said = [record.args for record in caplog.records if "work for" in record.msg]
        return [args[1:] for args in said]

    with threads(3):
        assert n_threads() == [(3, 3)]
        costs = library().threads.costs
        costs.meeting_of_most = 1e9
        assert n_threads() == [(2, 3)]
        costs.meeting_of_two = 1e9
        assert n_threads() == [(1, 3)]
        costs.meeting_of_two = costs.meeting_of_most = 0
        costs.start = 1e9
        assert n_threads() == [(1, 3)]
    with threads(1):
        assert n_threads() == []


@compiled
def test_what_threads_cost_is_measured_once(monkeypatch):
    with threads(2):
        pass
    costs = library().threads.costs
    assert costs.most_threads == 2
    has = {"fp32": True, "bf16": library().has_bf16, "int8": library().has_int8}
    for name in ("of_byte", "start", *(f"of_product_{name}" for name in has if has[name])):
        assert 0 < getattr(costs, name) < 1e8, name
    assert 0 <= costs.meeting_of_two < 1e8
    monkeypatch.setattr(library(), "_measure_costs", None)
    with threads(2):
        pass
