"""The compiled step: what it computes, and what it leaves to torch."""

import pytest
import torch

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.kernels.loading import library
from tests.support import tiny
from tests.support.at_once import at_once
from tests.support.compiled import PRECISIONS, compiled
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
@pytest.mark.parametrize(
    "options, precision",
    [
        (dict(dtype=torch.float64), "model"),
        (dict(dtype=torch.bfloat16), "model"),
        (dict(activation_fn=torch.sigmoid), "model"),
        (dict(activation_fn=torch.sigmoid), "int8"),
        (dict(fc1=torch.nn.Linear(32, 48), fc2=torch.nn.Linear(48, 32)), "model"),
    ],
    ids=str,
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
def test_where_torch_has_other_threads_it_has_one(monkeypatch):
    """Not libgomp's, whose pool it would share: Intel's, for example, or macOS's."""
    monkeypatch.setattr(library(), "threads", None)
    model = tiny.stir(tiny.build_model(TASK))
    tokens, kept = random_steps()
    alone = features_of(model, tokens, kept)
    monkeypatch.undo()
    assert all(map(torch.equal, features_of(model, tokens, kept), alone))
