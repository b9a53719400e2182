"""Heads that see the tokens before theirs, against a loop over positions."""

import re

import pytest
import torch

from tests.support import tiny

TASK = tiny.task(20)
ARCH = "blockwise_transformer"
SEQUENTIAL = dict(block_heads="sequential", identity_first_head=True, block_size=4)
NETWORKS = [
    dict(),
    dict(decoder_output_dim=24, decoder_input_dim=24),
    dict(decoder_normalize_before=True, activation_fn="gelu", block_ffn_embed_dim=48),
    dict(block_output_rank=5),
]


def build(**options):
    return tiny.stir(tiny.build_model(TASK, ARCH, **SEQUENTIAL, **options))


def forward(model, sample, **options):
    with torch.no_grad():
        return model(**sample["net_input"], **options)[0]


def slow_heads(model, sample, row, position):
    """The logits of all heads at one position of one sentence, one token after the other."""
    net, decoder, heads = sample["net_input"], model.decoder, model.decoder.heads
    n = int(net["src_tokens"][row].ne(TASK.source_dictionary.pad()).sum())
    source = net["src_tokens"][row][net["src_tokens"][row].ne(TASK.source_dictionary.pad())]
    with torch.no_grad():
        encoded = model.encoder(source[None], src_lengths=torch.tensor([n]))
        tokens = net["prev_output_tokens"][row : row + 1]
        features = decoder.extract_features(tokens, encoder_out=encoded)[0][0, position]
        attention = decoder.layers[-1].encoder_attn
        memory = encoded["encoder_out"][0][:, 0]
        split = lambda x: x.view(len(x), attention.num_heads, -1)  # noqa: E731
        keys, values = split(attention.k_proj(memory)), split(attention.v_proj(memory))
        outputs, state = [features], heads.begin(features)
        for step in range(model.decoder.block_size - 1):
            if position + 1 + step >= tokens.size(1):
                break
            word = decoder.embed_tokens.weight[tokens[0, position + 1 + step]]
            state = heads.read_token(state, decoder.embed_scale * word)
            queries = heads.query(heads.source_norm(state)).view(attention.num_heads, -1)
            weights = torch.einsum("hd,shd->hs", queries, keys) * queries.size(1) ** -0.5
            found = torch.einsum("hs,shd->hd", weights.softmax(-1), values)
            state = heads.feed_forward(state + heads.source(found.flatten()))
            output = heads.output_norm(state)
            if heads.narrow is not None:
                output = heads.widen.weight @ (heads.narrow.weight @ output)
            outputs.append(output)
        return decoder.output_layer(torch.stack(outputs))


@pytest.mark.parametrize("options", NETWORKS)
def test_heads_against_a_loop(options):
    model, sample = build(**options), tiny.random_batch(TASK, [3, 8, 5])
    together = forward(model, sample, heads=(0, 4))
    for row in range(3):
        n_tokens = int(sample["target"][row].ne(TASK.target_dictionary.pad()).sum())
        for position in range(n_tokens):
            expected = slow_heads(model, sample, row, position)[: n_tokens - position]
            own = together[row, position, : len(expected)]
            torch.testing.assert_close(own, expected, atol=2e-5, rtol=1e-4)


def test_one_head_and_several_and_places_agree():
    model, sample = build(), tiny.random_batch(TASK, [3, 8, 5])
    together = forward(model, sample, heads=(0, 4))
    for head in range(4):
        torch.testing.assert_close(forward(model, sample, head=head), together[..., head, :])
    shape = together.shape[:2]
    generator = torch.Generator().manual_seed(3)
    chosen = [torch.rand(shape, generator=generator).lt(0.4).flatten() for _ in range(4)]
    chosen[1] = torch.zeros_like(chosen[1])
    places = [own.nonzero().squeeze(1) for own in chosen]
    expected = [together[..., head, :].flatten(0, 1)[own] for head, own in enumerate(places)]
    torch.testing.assert_close(forward(model, sample, places=places), torch.cat(expected))


def test_features_of_heads_are_the_output_layers_inputs():
    model, sample = build(), tiny.random_batch(TASK, [3, 8, 5])
    features = forward(model, sample, heads=(1, 3), features_only=True)
    expected = forward(model, sample, heads=(1, 3))
    torch.testing.assert_close(model.decoder.output_layer(features), expected)


def test_a_head_sees_the_tokens_before_its_own_and_no_others():
    """p_3 after position 0 sees tokens 1 and 2 of what the decoder was fed."""
    model, sample = build(), tiny.random_batch(TASK, [8])
    fed = sample["net_input"]["prev_output_tokens"]
    before = forward(model, sample, head=2)[0, 0]
    for position in range(1, fed.size(1)):
        changed = fed.clone()
        changed[0, position] = 4 + (changed[0, position] - 3) % 15
        net = {**sample["net_input"], "prev_output_tokens": changed}
        after = forward(model, {**sample, "net_input": net}, head=2)[0, 0]
        assert torch.equal(after, before) == (position > 2)


@pytest.mark.parametrize("options", [{}, dict(block_output_rank=5)])
def test_every_parameter_gets_a_gradient_whichever_head_is_drawn(options):
    model, sample = build(**options).train(), tiny.random_batch(TASK, [4, 7])
    nowhere, somewhere = torch.zeros(0, dtype=torch.long), torch.tensor([0, 3])
    draws = [dict(head=head) for head in range(4)]
    draws += [dict(places=[somewhere, nowhere, nowhere, nowhere])]
    for options in draws:
        model.zero_grad(set_to_none=True)
        model(**sample["net_input"], **options)[0].sum().backward()
        assert all(p.grad.isfinite().all() for p in model.decoder.heads.parameters())


@pytest.mark.parametrize("rank", [1, 20])
def test_outputs_of_low_rank_begin_as_a_projection(rank):
    heads = tiny.build_model(TASK, ARCH, **SEQUENTIAL, block_output_rank=rank).decoder.heads
    product = heads.widen.weight @ heads.narrow.weight
    torch.testing.assert_close(product @ product, product)
    assert torch.linalg.matrix_rank(product) == rank


def test_a_frozen_base_stays_as_it_is_while_heads_learn():
    model = tiny.build_model(TASK, ARCH, freeze_base=True, **SEQUENTIAL)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    of_heads = lambda model, batch: model(**batch["net_input"], heads=(1, 4))[0].square().mean()  # noqa: E731
    tiny.train(model, TASK, updates=3, loss_of=of_heads)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == (".heads." not in name)


def test_a_stock_state_dict_warm_starts_the_model(caplog):
    model = tiny.build_model(TASK, ARCH, **SEQUENTIAL)
    with caplog.at_level("DEBUG"):
        model.load_state_dict(dict(tiny.build_model(TASK).state_dict()))
    assert "they start at random" in caplog.text


@pytest.mark.parametrize("kinds", [("parallel", "sequential"), ("sequential", "parallel")])
def test_a_checkpoint_with_heads_of_the_other_kind_is_refused(kinds):
    own, other = (
        tiny.build_model(TASK, ARCH, **{**SEQUENTIAL, "block_heads": kind}) for kind in kinds
    )
    with pytest.raises(ValueError, match=f"do not match --block-heads {kinds[0]}"):
        own.load_state_dict(dict(other.state_dict()))


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(block_heads="one by one"), "--block-heads one by one: choose"),
        (dict(block_heads="sequential"), "--block-heads sequential: needs --identity-first-head"),
        (dict(SEQUENTIAL, block_ffn="split"), "--block-ffn split: cannot be combined"),
        (dict(SEQUENTIAL, block_output_rank=0), "--block-output-rank 0: must be at least 1"),
        (dict(SEQUENTIAL, block_output_rank=32), "--block-output-rank 32: must be at least 1 and"),
        (dict(block_output_rank=8), "--block-output-rank 8: needs --block-heads sequential; add"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tiny.build_model(TASK, ARCH, **options)
