"""The engine's truth: any split into steps gives the logits of the plain full forward pass."""

import copy

import pytest
import torch
from fairseq import utils
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.network.attention import CausalMasks, causal_mask
from fairseq_fastdec.engine.network.cache import KeyValueCache
from tests.support import tiny
from tests.support.sessions import steps_by_torch

ARCHITECTURES = {
    "post-norm": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "learned positions": dict(encoder_learned_pos=True, decoder_learned_pos=True),
    "no positions": dict(no_token_positional_embeddings=True),
    "shared embeddings": dict(share_all_embeddings=True),
    "shared output": dict(share_decoder_input_output_embed=True),
    "embedding norm": dict(layernorm_embedding=True, no_scale_embedding=True),
    "differing dimensions": dict(encoder_embed_dim=24, decoder_input_dim=20, decoder_output_dim=28),
    "gelu": dict(activation_fn="gelu", decoder_normalize_before=True),
    "no final norm": dict(decoder_normalize_before=True, no_decoder_final_norm=True),
    "layer drop": dict(decoder_layerdrop=0.5),
    "normformer": dict(
        decoder_normalize_before=True,
        scale_attn=True,
        scale_fc=True,
        scale_heads=True,
        scale_resids=True,
    ),
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.fixture
def true_double(monkeypatch):
    """fairseq computes the cross-attention's softmax in fp32 even in fp64 models; not here."""
    monkeypatch.setattr(
        utils, "softmax", lambda x, dim, onnx_trace=False: torch.softmax(x, dim=dim)
    )


def full_logits(model, batch, tokens):
    """The reference: ``[B, T, V]`` by the stock decoder, without any incremental state."""
    with torch.no_grad():
        encoded = model.encoder(batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"])
        return model.decoder(tokens, encoder_out=encoded)[0]


def random_targets(task, n_sentences, length, seed=0):
    words = task.target_dictionary
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(words.nspecial, len(words), (n_sentences, length), generator=generator)
    tokens[:, 0] = words.eos()
    return tokens


class Replay:
    """Feeds given sentences to a session in arbitrary steps and compares what comes out.

    ``sentence`` and ``lengths`` are those of the rows that are not paused.
    """

    def __init__(self, model, task, tolerance):
        self.session, self.model, self.task = DecoderSession(model), model, task
        self.tolerance = tolerance
        self.session.reset(64)
        self.tokens = torch.empty(0, 20, dtype=torch.long)
        self.expected = torch.empty(0)
        self.sentence = torch.empty(0, dtype=torch.long)
        self.lengths = torch.empty(0, dtype=torch.long)
        self.paused = (self.sentence, self.lengths)

    def add(self, lengths, left_pad, seed):
        batch = tiny.random_batch(self.task, lengths, left_pad, seed)
        tokens = random_targets(self.task, len(lengths), 20, seed)
        expected = full_logits(self.model, batch, tokens)
        first = self.tokens.size(0)
        self.tokens = torch.cat([self.tokens, tokens])
        self.expected = expected if first == 0 else torch.cat([self.expected, expected])
        self.session.add(batch["net_input"])
        new = torch.arange(first, first + len(lengths))
        self.sentence = torch.cat([self.sentence, new])
        self.lengths = torch.cat([self.lengths, torch.zeros_like(new)])

    def step(self, n_new, kept):
        """Feed ``n_new`` tokens and keep ``kept[r]`` of them, as far as the sentences go."""
        positions = self.lengths[:, None] + torch.arange(n_new)
        real = positions < self.tokens.size(1)
        positions = positions.clamp(max=self.tokens.size(1) - 1)
        fed = self.tokens[self.sentence].gather(1, positions)
        logits = self.session.project(self.session.step(fed))[..., 0, :]
        error = (logits - self.expected[self.sentence[:, None], positions]).abs().amax(-1)
        assert error[real].max().item() < self.tolerance if real.any() else True
        kept = torch.minimum(kept, real.sum(1))
        self.session.commit(kept)
        self.lengths = self.lengths + kept

    def select(self, rows):
        self.session.select(rows)
        self.sentence, self.lengths = self.sentence[rows], self.lengths[rows]

    def pause(self, n):
        sentence = torch.cat([self.paused[0], self.sentence])
        lengths = torch.cat([self.paused[1], self.lengths])
        n = min(n, sentence.numel())
        self.session.pause(n)
        self.paused = (sentence[:n], lengths[:n])
        self.sentence, self.lengths = sentence[n:], lengths[n:]
        assert self.session.n_rows == self.sentence.numel()


def fuzz(model, task, draw, tolerance, n_operations=12, unit=1):
    """Random sentences, steps, partly kept tokens, row selections, pauses and refills.

    Tokens are fed and kept in multiples of ``unit``.
    """
    replay = Replay(model, task, tolerance)
    for seed in range(n_operations):
        n_rows = replay.sentence.numel()
        actions = ["step"] * 4 + ["select", "add", "pause"]
        action = "add" if n_rows == 0 else draw(st.sampled_from(actions))
        if action == "add" and n_rows < 8:
            lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
            replay.add(lengths, draw(st.booleans()), seed)
        elif action == "pause":
            replay.pause(draw(st.integers(0, 6)))
        elif action == "select":
            rows = draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=8))
            replay.select(torch.tensor(rows))
        else:
            n_new = draw(st.integers(1, 4))
            uniform = draw(st.booleans())
            counts = st.integers(0, n_new)
            kept = [draw(counts)] * n_rows if uniform else [draw(counts) for _ in range(n_rows)]
            replay.step(unit * n_new, unit * torch.tensor(kept))


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


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), min_size=1, max_size=12),
    st.sampled_from([1, 2]),
)
def test_masks_of_rows_of_one_length_are_slices_of_a_table(shapes, together):
    masks = CausalMasks(torch.float32, torch.device("cpu"), together)
    for past, n_new in shapes:
        expected = causal_mask(torch.tensor([past]), n_new, past + n_new, torch.float32, together)
        assert torch.equal(masks.of(past, n_new), expected)


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
    """fairseq's --store-ema deep-copies the model in training; the copy's hooks watch nothing."""
    task = tiny.task(20)
    model = tiny.build_model(task)
    sessions = [DecoderSession(model) for _ in range(2)]
    for session in sessions:
        session.reset(20)
    assert len(model.decoder.layers[0]._forward_pre_hooks) == 1, "one watch, whoever asks"
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
    sources = replay.session.network.runner.source_keys(replay.session.rows)
    assert (sources.slots.start, sources.n_keys) == (2, 7)
    replay.step(3, torch.tensor([3, 3]))
    replay.select(torch.tensor([1, 1, 0, 1]))
    replay.pause(3)
    replay.step(1, torch.tensor([1, 0, 1]))
    replay.pause(0)
    replay.step(2, torch.tensor([1, 1, 2, 0, 2, 1]))


def test_the_cache_is_as_large_as_its_use_and_not_many_rows_times_a_long_one():
    cache = KeyValueCache(1, 1, 2, torch.float32, torch.device("cpu"))
    cache.reserve(2, 1000)
    cache.reserve(1000, 2)
    assert cache._data.numel() <= 4 * (2 * 2 * 1000 * 2)


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
