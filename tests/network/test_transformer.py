"""Any division into steps gives the logits of fairseq's full forward pass, for every decoder."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.network.transformer import TransformerNetwork
from tests.support import tiny
from tests.support.full_forward import ARCHITECTURES, TOLERANCE, full_logits, random_targets
from tests.support.network_replay import NetworkReplay, fuzz_network
from tests.support.trained_models import TASK

DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=["fp32", "fp64"])
HEADS = {
    "identity": dict(identity_first_head=True),
    "learned": dict(identity_first_head=False),
    "split": dict(identity_first_head=True, block_ffn="split"),
}


def replay_of(model, task, dtype):
    def expected(batch, tokens):
        return full_logits(model, batch, tokens)

    return NetworkReplay(TransformerNetwork(model), task, expected, TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("options", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_any_steps_give_the_full_forward_logits(options, dtype, true_double):
    model = tiny.stir(tiny.build_model(TASK, dtype=dtype, **options))

    @settings(max_examples=6)
    @given(st.data())
    def check(data):
        fuzz_network(replay_of(model, TASK, dtype), data.draw)

    check()


@DTYPES
@pytest.mark.parametrize("options", [{}, dict(decoder_normalize_before=True)], ids=str)
def test_any_steps_of_pairs_give_the_full_forward_logits(options, dtype, true_double):
    task = tiny.double_token_task()
    model = tiny.build_model(task, "double_token_transformer", dtype=dtype, **options)
    tiny.stir(model)

    @settings(max_examples=8)
    @given(st.data())
    def check(data):
        fuzz_network(replay_of(model, task, dtype), data.draw, unit=2)

    check()


@DTYPES
@pytest.mark.parametrize("options", HEADS.values(), ids=HEADS)
def test_parallel_heads(options, dtype, true_double):
    model = tiny.build_model(TASK, "blockwise_transformer", dtype=dtype, block_size=4, **options)
    tiny.stir(model)
    batch, tokens = tiny.random_batch(TASK, [5, 2]), random_targets(TASK, 2, 6)
    network = TransformerNetwork(model)
    network.encode(batch["net_input"])
    features = network.step(tokens)
    with torch.no_grad():
        encoded = model.encoder(**sources(batch))
        expected = model.decoder(tokens, encoder_out=encoded, heads=(0, 4))[0]
    assert (network.head_scores(features, 0, 4) - expected).abs().max() < TOLERANCE[dtype]
    assert (network.scores(features) - expected[:, :, 0]).abs().max() < TOLERANCE[dtype]
    assert network.block_size == 4 and not network.has_sequential_heads


@DTYPES
@pytest.mark.parametrize("rank", [None, 16])
def test_sequential_heads(rank, dtype, true_double):
    model = tiny.build_model(
        TASK, "blockwise_transformer", dtype=dtype, block_size=4, identity_first_head=True,
        block_heads="sequential", block_output_rank=rank,
    )  # fmt: skip
    tiny.stir(model)
    batch, tokens = tiny.random_batch(TASK, [5, 2]), random_targets(TASK, 2, 8)
    network = TransformerNetwork(model)
    network.encode(batch["net_input"])
    features = network.step(tokens)
    with torch.no_grad():
        encoded = model.encoder(**sources(batch))
        expected = model.decoder(tokens, encoder_out=encoded, heads=(0, 4))[0]
        # From position 2 on, the heads read the tokens that the decoder was fed.
        states = network.begin_drafts(features[:, 2])[:, None]
        for head in range(1, 4):
            states = network.extend_drafts(states, tokens[:, 2 + head : 3 + head])
            logits = network.draft_scores(states)[:, 0]
            assert (logits - expected[:, 2, head]).abs().max() < TOLERANCE[dtype]
    assert network.has_sequential_heads


def sources(batch):
    return {name: batch["net_input"][name] for name in ("src_tokens", "src_lengths")}


def test_what_is_not_kept_leaves_no_trace():
    model = tiny.stir(tiny.build_model(TASK))
    batch = tiny.random_batch(TASK, [4, 6])
    network = TransformerNetwork(model)

    def logits_after(rejected):
        network.reset()
        network.encode(batch["net_input"])
        network.step(torch.full((2, 1), 2))
        network.keep(torch.ones(2, dtype=torch.long))
        if rejected:
            network.step(torch.tensor([[7, 8, 9], [10, 11, 12]]))
            network.keep(torch.zeros(2, dtype=torch.long))
        return network.scores(network.step(torch.tensor([[5], [6]])))

    torch.testing.assert_close(logits_after(True), logits_after(False), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_half_precision_is_as_near_as_its_rounding(dtype):
    model = tiny.stir(tiny.build_model(TASK, dtype=dtype))
    batch, tokens = tiny.random_batch(TASK, [4, 7]), random_targets(TASK, 2, 6)
    network = TransformerNetwork(model)
    network.encode(batch["net_input"])
    logits = network.scores(network.step(tokens))
    assert logits.dtype == dtype
    exact = full_logits(model.float(), batch, tokens)
    scale = exact.abs().max() * torch.finfo(dtype).eps
    assert (logits.float() - exact).abs().max() < 16 * scale
