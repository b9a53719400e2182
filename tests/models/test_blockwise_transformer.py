"""The contract of the blockwise model: heads on a stock transformer."""

import pytest
import torch
from fairseq.modules import FairseqDropout
from fairseq.sequence_generator import SequenceGenerator

from tests.support import tiny

TASK = tiny.task(20)
ARCH = "blockwise_transformer"
VARIANTS = [
    dict(identity_first_head=identity, block_ffn=ffn)
    for identity in (False, True)
    for ffn in ("shared", "split")
]


def names(options):
    return "-".join(str(value) for value in options.values())


def forward(model, batch, **options):
    with torch.no_grad():
        return model(**batch["net_input"], **options)[0]


@pytest.mark.parametrize("options", VARIANTS, ids=names)
def test_heads_start_as_the_identity(options):
    model = tiny.build_model(TASK, ARCH, block_size=3, **options)
    stock = tiny.build_model(TASK)
    stock.load_state_dict(
        {key: value for key, value in model.state_dict().items() if ".heads." not in key}
    )
    batch = tiny.random_batch(TASK, [4, 7])
    expected = forward(stock, batch)
    for head in range(3):
        assert torch.equal(forward(model, batch, head=head), expected)


@pytest.mark.parametrize("ffn", ["shared", "split"])
def test_an_identity_first_head_is_the_base_model_whatever_the_others_learned(ffn):
    model = tiny.build_model(TASK, ARCH, identity_first_head=True, block_ffn=ffn)
    batch = tiny.random_batch(TASK, [4, 7])
    before = [forward(model, batch, head=head) for head in (0, 1)]
    tiny.stir(model.decoder.heads)
    assert torch.equal(forward(model, batch, head=0), before[0])
    assert not torch.allclose(forward(model, batch, head=1), before[1])


@pytest.mark.parametrize("options", [dict(), dict(head=1), dict(heads=(0, 3))], ids=str)
def test_a_frozen_output_layer_multiplies_a_batch_at_once(options):
    """And not one sentence at a time, which took a tenth of the time of a training."""
    model = tiny.build_model(TASK, ARCH, block_size=3)
    model.decoder.embed_tokens.weight.requires_grad_(False)
    seen = []
    model.decoder.output_layer = lambda features: seen.append(features)
    batch = tiny.random_batch(TASK, [4, 7])["net_input"]
    model(**batch, **options)
    assert seen[0].is_contiguous()
    # Validation gives them one head's features after the other.
    features, _ = model(**batch, features_only=True, heads=(0, 3))
    assert features.is_contiguous()


def test_heads_count_learned_outputs_only():
    assert tiny.build_model(TASK, ARCH, block_size=5).decoder.heads.n_heads == 5
    model = tiny.build_model(TASK, ARCH, block_size=5, identity_first_head=True)
    assert model.decoder.heads.n_heads == 4
    assert model.decoder.block_size == 5


def test_shapes_are_the_papers():
    """Section 6: hidden size k * d_hidden, output size k * d_model, from all hidden units."""
    heads = tiny.build_model(TASK, ARCH, block_size=3).decoder.heads
    assert heads.hidden_weight.shape == (3 * 64, 32)
    assert heads.output_weight.shape == (3, 32, 3 * 64)
    split = tiny.build_model(TASK, ARCH, block_size=3, block_ffn="split", block_ffn_embed_dim=10)
    assert split.decoder.heads.hidden_weight.shape == (3 * 10, 32)
    assert split.decoder.heads.output_weight.shape == (3, 32, 10)


@pytest.mark.parametrize("options", VARIANTS, ids=names)
def test_head_features_against_the_formula(options):
    """Each head: features + W2 relu(W1 features + b1) + b2, written out by hand."""
    model = tiny.stir(tiny.build_model(TASK, ARCH, block_size=3, **options))
    heads, decoder = model.decoder.heads, model.decoder
    features = torch.randn(2, 5, 32)
    first_learned = int(options["identity_first_head"])
    expected = []
    for head in range(3):
        if head < first_learned:
            expected.append(features)
            continue
        index = head - first_learned
        units = slice(None)
        if options["block_ffn"] == "split":
            units = slice(index * 64, (index + 1) * 64)
        hidden = torch.relu(features @ heads.hidden_weight[units].T + heads.hidden_bias[units])
        output = hidden @ heads.output_weight[index].T + heads.output_bias[index]
        expected.append(features + output)
    expected = torch.stack(expected, dim=-2)
    for first in range(3):
        for last in range(first + 1, 4):
            torch.testing.assert_close(
                decoder.head_features(features, first, last), expected[..., first:last, :]
            )


def test_only_the_heads_asked_for_are_computed():
    """The others may hold NaN."""
    model = tiny.stir(tiny.build_model(TASK, ARCH, block_size=4, block_ffn="split"))
    features = torch.randn(3, 32)
    expected = model.decoder.head_features(features, 1, 3)
    with torch.no_grad():
        for head in (0, 3):
            model.decoder.heads.hidden_weight[head * 64 : (head + 1) * 64] = float("nan")
            model.decoder.heads.output_weight[head] = float("nan")
    assert torch.equal(model.decoder.head_features(features, 1, 3), expected)


@pytest.mark.parametrize("options", VARIANTS, ids=names)
def test_every_parameter_gets_a_gradient_whichever_head_is_drawn(options):
    model = tiny.stir(tiny.build_model(TASK, ARCH, block_size=3, **options)).train()
    batch = tiny.random_batch(TASK, [4, 7])
    stock = tiny.build_model(TASK).train()
    stock(**batch["net_input"])[0].sum().backward()
    # fairseq 0.12.2 keeps unused parameters for a fast path in its own encoder.
    unused = {name for name, parameter in stock.named_parameters() if parameter.grad is None}
    for head in range(3):
        model.zero_grad(set_to_none=True)
        model(**batch["net_input"], head=head)[0].sum().backward()
        without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
        assert without == unused
        assert all(p.grad.isfinite().all() for p in model.decoder.heads.parameters())


def test_an_identity_first_head_is_the_base_model_in_training_too():
    model = tiny.stir(tiny.build_model(TASK, ARCH, identity_first_head=True)).train()
    batch = tiny.random_batch(TASK, [4, 7])
    base = model.decoder.output_layer(forward(model, batch, features_only=True))
    assert torch.equal(forward(model, batch, head=0), base)


@pytest.mark.parametrize("options", VARIANTS, ids=names)
def test_several_heads_in_one_forward(options):
    model = tiny.stir(tiny.build_model(TASK, ARCH, block_size=3, **options))
    batch = tiny.random_batch(TASK, [4, 7])
    one_by_one = torch.stack([forward(model, batch, head=head) for head in range(3)], dim=-2)
    for first, last in ((0, 3), (1, 3), (0, 1), (2, 3)):
        together = forward(model, batch, heads=(first, last))
        torch.testing.assert_close(together, one_by_one[..., first:last, :])


@pytest.mark.parametrize("options", VARIANTS, ids=names)
@pytest.mark.parametrize("first, last", [(-1, 1), (0, 4), (3, 4), (2, 2), (2, 1)])
def test_heads_that_do_not_exist(options, first, last):
    model = tiny.build_model(TASK, ARCH, block_size=3, **options)
    with pytest.raises(IndexError, match="block_size 3"):
        model.decoder.head_features(torch.zeros(2, 32), first, last)


@pytest.mark.parametrize(
    "given, expected",
    [
        (dict(activation_dropout=0.2), 0.2),
        (dict(relu_dropout=0.3), 0.3),
        (dict(activation_dropout=0.2, relu_dropout=0.3), 0.2),
    ],
)
def test_dropout_is_that_of_the_decoders_layers(given, expected):
    decoder = tiny.build_model(TASK, ARCH, dropout=0.1, **given).decoder
    assert decoder.layers[0].activation_dropout_module.p == expected
    assert decoder.heads.activation_dropout.p == expected
    assert decoder.heads.dropout.p == decoder.layers[0].dropout_module.p == 0.1


def test_a_frozen_base_stays_as_it_is_while_heads_learn():
    options = dict(identity_first_head=True, freeze_base=True)
    model = tiny.build_model(TASK, ARCH, **options)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    second_head = lambda model, batch: model(**batch["net_input"], head=1)[0].square().mean()  # noqa: E731
    tiny.train(model, TASK, updates=3, loss_of=second_head)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == (".heads." not in name)


@pytest.mark.parametrize("block_heads", ["parallel", "sequential"])
def test_heads_see_the_states_of_a_frozen_base_without_dropout(block_heads):
    options = dict(identity_first_head=True, freeze_base=True, block_heads=block_heads)
    model = tiny.build_model(TASK, ARCH, dropout=0.5, encoder_layerdrop=0.5, **options)
    batch = tiny.random_batch(TASK, [4, 7])
    expected = model(**batch["net_input"])[0]
    assert torch.equal(model.train()(**batch["net_input"])[0], expected)
    of_heads = {part for part in model.decoder.heads.modules() if isinstance(part, FairseqDropout)}
    assert of_heads and all(part.training for part in of_heads)
    assert not any(part.training for part in model.eval().modules())


def test_a_stock_state_dict_warm_starts_the_model(caplog):
    stock = tiny.stir(tiny.build_model(TASK))
    model = tiny.build_model(TASK, ARCH, seed=5)
    with caplog.at_level("DEBUG"):
        model.load_state_dict(dict(stock.state_dict()))
    assert "they start as the identity" in caplog.text
    batch = tiny.random_batch(TASK, [4, 7])
    assert torch.equal(forward(model, batch, head=2), forward(stock, batch))


def test_a_checkpoint_of_another_block_size_is_refused():
    state = tiny.build_model(TASK, ARCH, block_size=3).state_dict()
    with pytest.raises(ValueError, match="--block-size.*must be those of the checkpoint"):
        tiny.build_model(TASK, ARCH, block_size=4).load_state_dict(state)


def test_a_checkpoint_with_some_heads_missing_is_refused():
    model = tiny.build_model(TASK, ARCH)
    state = dict(model.state_dict())
    del state["decoder.heads.output_bias"]
    with pytest.raises(RuntimeError, match="decoder.heads.output_bias"):
        model.load_state_dict(state)


def test_fairseqs_own_beam_search_sees_p1():
    stock = tiny.train(tiny.build_model(TASK), TASK, updates=60)
    model = tiny.build_model(TASK, ARCH, identity_first_head=True)
    model.load_state_dict(dict(stock.state_dict()))
    tiny.stir(model.decoder.heads)
    sample = tiny.random_batch(TASK, [4, 7, 2])
    ours, theirs = (
        SequenceGenerator([m], TASK.target_dictionary, beam_size=4).generate([m], sample)
        for m in (model, stock)
    )
    for own, reference in zip(ours, theirs):
        assert [h["tokens"].tolist() for h in own] == [h["tokens"].tolist() for h in reference]
        assert [h["score"] for h in own] == [h["score"] for h in reference]


def test_fairseq_train_warm_starts_from_a_stock_checkpoint(baseline, blockwise):
    """--finetune-from-model with a frozen base: the base is the checkpoint's, the heads learned."""
    before, after = (torch.load(path, weights_only=True)["model"] for path in (baseline, blockwise))
    heads = {key for key in after if ".heads." in key}
    assert after.keys() - heads == before.keys()
    unused = ("in_proj_", ".out_proj_", "fc1_", "fc2_", "_float_tensor") if tiny.OLD_FAIRSEQ else ()
    base = [key for key in before if not any(name in key for name in unused)]
    assert len(base) > len(before) / 2
    assert [key for key in base if not torch.equal(after[key], before[key])] == []
    assert after["decoder.heads.output_weight"].abs().max() > 0


@pytest.mark.parametrize(
    "arch, sizes",
    [
        ("blockwise_transformer", (512, 2048, 8)),
        ("blockwise_transformer_iwslt_de_en", (512, 1024, 4)),
        ("blockwise_transformer_wmt_en_de", (512, 2048, 8)),
        ("blockwise_transformer_wmt_en_de_big", (1024, 4096, 16)),
    ],
)
def test_presets_are_fairseqs(arch, sizes):
    import argparse

    from fairseq.models import ARCH_CONFIG_REGISTRY

    args = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[arch](args)
    assert (
        args.decoder_embed_dim,
        args.decoder_ffn_embed_dim,
        args.decoder_attention_heads,
    ) == sizes
    assert args.block_size == 4


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(block_size=0), "--block-size 0"),
        (dict(block_size=1, identity_first_head=True), "no head to train"),
        (dict(block_ffn="both"), "--block-ffn both"),
        (dict(block_ffn_embed_dim=0), "--block-ffn-embed-dim 0"),
        (dict(adaptive_softmax_cutoff="5,10"), "--adaptive-softmax-cutoff 5,10"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        tiny.build_model(TASK, ARCH, **options)
