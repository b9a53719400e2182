"""The contract of the double-token model: the paper's mask on a stock transformer."""

import argparse

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.modules import LearnedPositionalEmbedding
from fairseq.sequence_generator import SequenceGenerator

from tests.support import tiny

ARCH = "double_token_transformer"
TASK = tiny.double_token_task()

# Figure 1(b) of the paper: keys downwards, queries (L1 R1 L2 R2 ...) across.
FIGURE = """
x x x x x x x x
x x x x x x x x
. . x x x x x x
. . x x x x x x
. . . . x x x x
. . . . x x x x
. . . . . . x x
. . . . . . x x
"""


def logits(model, sample, tokens):
    net_input = sample["net_input"]
    with torch.no_grad():
        return model(net_input["src_tokens"], net_input["src_lengths"], tokens)[0]


def test_the_mask_is_figure_1b_cell_by_cell():
    mask = tiny.build_model(TASK, ARCH).decoder.buffered_future_mask(torch.zeros(8, 3, 1))
    expected = [row.split() for row in FIGURE.strip().splitlines()]
    for query in range(8):
        for key in range(8):
            seen = mask[query, key].item() == 0
            assert seen == (expected[key][query] == "x")
            assert seen or mask[query, key].item() == -float("inf")


def test_the_mask_grows_and_shrinks_and_follows_the_dtype():
    decoder = tiny.build_model(TASK, ARCH).decoder
    long = decoder.buffered_future_mask(torch.zeros(12, 1, 1)).clone()
    short = decoder.buffered_future_mask(torch.zeros(4, 1, 1, dtype=torch.float16))
    assert short.dtype == torch.float16 and torch.equal(short.float(), long[:4, :4])
    longer = decoder.buffered_future_mask(torch.zeros(14, 1, 1, dtype=torch.float64))
    assert longer.dtype == torch.float64 and torch.equal(longer[:12, :12].float(), long)


@pytest.mark.parametrize("changed", range(12))
def test_a_pair_reaches_itself_and_what_comes_after_it_only(changed):
    model = tiny.stir(tiny.build_model(TASK, ARCH, dtype=torch.float64))
    sample = tiny.random_batch(TASK, [4, 6])
    tokens = torch.randint(4, 20, (2, 12))
    other = tokens.clone()
    other[:, changed] = 20
    before, after = (logits(model, sample, t) for t in (tokens, other))
    same = (before == after).all(dim=-1)
    first = changed // 2 * 2
    assert same[:, :first].all()
    assert not same[:, first:].any()


def test_with_one_token_a_step_it_is_the_stock_transformer():
    task = tiny.double_token_task("r2l", 1)
    model = tiny.stir(tiny.build_model(task, ARCH))
    stock = tiny.build_model(task, decoder_learned_pos=True)
    stock.load_state_dict(model.state_dict())
    sample = tiny.random_batch(task, [4, 6])
    tokens = torch.randint(4, 20, (2, 9))
    assert torch.equal(logits(model, sample, tokens), logits(stock, sample, tokens))


def test_decoder_positions_are_learned():
    model = tiny.build_model(TASK, ARCH)
    assert isinstance(model.decoder.embed_positions, LearnedPositionalEmbedding)


def test_every_parameter_of_the_decoder_gets_a_gradient():
    model = tiny.stir(tiny.build_model(TASK, ARCH)).train()
    model(**tiny.random_batch(TASK, [4, 7])["net_input"])[0].sum().backward()
    assert all(p.grad is not None for p in model.decoder.parameters())


def test_fairseqs_own_search_is_refused():
    model = tiny.build_model(TASK, ARCH)
    generator = SequenceGenerator([model], TASK.target_dictionary)
    with pytest.raises(ValueError, match="2 tokens a step.*--decoding double_token"):
        generator.generate([model], tiny.random_batch(TASK, [3]))


def test_a_task_without_an_order():
    with pytest.raises(ValueError, match=f"--arch {ARCH}: .*--task translation_double_token"):
        tiny.build_model(tiny.task(20), ARCH)


@pytest.mark.parametrize(
    "arch, sizes",
    [
        (ARCH, (512, 2048, 8)),
        (f"{ARCH}_iwslt_de_en", (512, 1024, 4)),
        (f"{ARCH}_wmt_en_de", (512, 2048, 8)),
        (f"{ARCH}_wmt_en_de_big", (1024, 4096, 16)),
    ],
)
def test_presets_are_fairseqs(arch, sizes):
    args = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[arch](args)
    assert (
        args.decoder_embed_dim,
        args.decoder_ffn_embed_dim,
        args.decoder_attention_heads,
    ) == sizes
    assert args.decoder_learned_pos
