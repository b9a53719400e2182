"""Sessions in other precisions than the model's."""

import pytest
import torch

from fairseq_fastdec.engine import DecoderSession, EnsembleSession
from fairseq_fastdec.engine.products.precision import PRECISIONS, precision_of
from tests.support import tiny
from tests.support.full_forward import ARCHITECTURES, full_logits, random_targets
from tests.support.precisions import TOLERANCE, logits_of

TASK = tiny.task(20)


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize("architecture", ["post-norm", "pre-norm", "normformer", "gelu"])
@pytest.mark.parametrize("left_pad", [True, False])
def test_logits_are_as_near_as_the_precision_allows(precision, architecture, left_pad):
    model = tiny.stir(tiny.build_model(TASK, **ARCHITECTURES[architecture]))
    batch = tiny.random_batch(TASK, [4, 9, 1], left_pad)
    tokens = random_targets(TASK, 3, 9)
    exact = full_logits(model, batch, tokens)
    for step in (1, 4, 9):
        logits = logits_of(DecoderSession(model, precision), batch, tokens, step)
        assert logits.dtype == torch.float32
        error = (logits - exact).abs().mean() / exact.std()
        assert error < TOLERANCE[precision]
        if precision in ("bf16", "int8"):
            assert error > 1e-5, "computed in fp32 after all"


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_steps_of_any_size_can_be_made_equal(precision):
    """Rounding to 8 bits makes large differences of small ones: there must be none at all."""
    model = tiny.stir(tiny.build_model(TASK, decoder_layers=6))
    batch = tiny.random_batch(TASK, [4, 9, 1, 7])
    tokens = random_targets(TASK, 4, 30)
    session = DecoderSession(model, precision, equal_steps=True)
    one_by_one = logits_of(session, batch, tokens, 1)
    for step in (2, 7, 30):
        assert torch.equal(logits_of(session, batch, tokens, step), one_by_one)


def test_a_half_precision_checkpoint_in_fp32():
    model = tiny.stir(tiny.build_model(TASK)).half()
    batch, tokens = tiny.random_batch(TASK, [4, 9]), random_targets(TASK, 2, 5)
    logits = logits_of(DecoderSession(model, "fp32"), batch, tokens, 2)
    assert logits.dtype == torch.float32
    exact = full_logits(model.float(), batch, tokens)
    torch.testing.assert_close(logits, exact, atol=2e-3, rtol=0)


def test_blockwise_heads_in_int8():
    model = tiny.stir(tiny.build_model(TASK, "blockwise_transformer", block_size=3))
    batch, tokens = tiny.random_batch(TASK, [4, 9]), random_targets(TASK, 2, 5)
    logits = []
    for precision in ("model", "int8"):
        session = DecoderSession(model, precision)
        session.reset(5)
        session.add(batch["net_input"])
        logits.append(session.project(session.step(tokens), 0, 3))
    error = (logits[1] - logits[0]).abs().mean() / logits[0].std()
    assert 1e-5 < error < TOLERANCE["int8"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_split_heads_of_a_token_that_comes_alone(dtype):
    options = dict(block_size=4, block_ffn="split", identity_first_head=True)
    model = tiny.stir(tiny.build_model(TASK, "blockwise_transformer", **options)).to(dtype)
    session = DecoderSession(model)
    session.reset(5)
    heads = session.heads
    features = torch.randn(3, model.decoder.output_embed_dim, dtype=dtype)
    for last in (2, 3, 4):
        with torch.no_grad():
            expected = model.decoder.head_features(features[:, None], 1, last)[:, 0]
        together = heads(features, 1, last)
        alone = torch.cat([heads(features[row : row + 1], 1, last) for row in range(3)])
        torch.testing.assert_close(together, expected)
        torch.testing.assert_close(alone, expected)


@pytest.mark.parametrize("precision", ["model", "int8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_proposals_round_in_fp32_only(dtype, precision, monkeypatch, nothing_compiled):
    monkeypatch.setattr("fairseq_fastdec.engine.products.precision.can_block", lambda dtype: True)
    model = tiny.stir(tiny.build_model(TASK, "blockwise_transformer", block_size=3)).to(dtype)
    batch, tokens = tiny.random_batch(TASK, [4, 9]), random_targets(TASK, 2, 5)
    session = DecoderSession(model, precision)
    session.reset(5)
    session.add(batch["net_input"])
    features = session.step(tokens)
    exact, rough = (session.project(features, 1, 3, rough=r) for r in (False, True))
    error = (rough - exact).abs().mean() / exact.std()
    halved = dtype == torch.float32 and precision == "model"
    assert (1e-5 < error < TOLERANCE["bf16"]) if halved else error == 0


def test_what_cannot_be_computed_so_is_refused():
    with pytest.raises(ValueError, match="--engine-precision int8: possible on a CPU.*--cpu"):
        precision_of("int8", torch.device("cuda"))
    lstm = tiny.build_model(TASK, arch="lstm", criterion="cross_entropy")
    with pytest.raises(ValueError, match="--engine-precision bf16: .*LSTMDecoder.*remove it"):
        EnsembleSession([lstm], precision="bf16")
