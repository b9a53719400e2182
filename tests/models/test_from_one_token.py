"""Models of two tokens a step that begin with the parameters of models of one."""

import copy

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from tests.support import tiny

ARCH = "double_token_transformer"
WORDS = 20
ONE = tiny.task(WORDS)
TWO = tiny.double_token_task(source_words=WORDS)
FIRST = ONE.target_dictionary.pad() + 1
END = TWO.target_dictionary.index("<eod>")


def parameters_of(model):
    """All but the unused ones that fairseq 0.12.2 has in its encoder layers."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if not name.startswith("encoder.layers")
    }


def loaded(stock, task, **options):
    """A new model with the parameters of ``stock``, and what it was before."""
    model = tiny.build_model(task, ARCH, seed=1, **options)
    new = copy.deepcopy(model.state_dict())
    model.load_state_dict(dict(stock.state_dict()))
    return model, new


@pytest.mark.parametrize(
    "options", [{}, dict(decoder_learned_pos=True)], ids=["sinusoids", "learned"]
)
def test_positions_count_steps(options):
    stock = tiny.build_model(ONE, **options)
    model, new = loaded(stock, TWO)
    positions = stock.decoder.embed_positions
    if options:
        before = positions.weight[FIRST:]
    else:
        before = SinusoidalPositionalEmbedding.get_embedding(80, 32, FIRST - 1)[FIRST:]
    table = model.decoder.embed_positions.weight[FIRST:]
    places = new["decoder.embed_positions.weight"][FIRST : FIRST + 2]
    assert not torch.equal(places[0], places[1])
    for slot in range(64):
        assert torch.equal(table[slot], before[slot // 2] + places[slot % 2])
    assert not model.decoder.embed_positions.weight[FIRST - 1].any()


@pytest.mark.parametrize(
    "options",
    [{}, dict(share_all_embeddings=True), dict(share_decoder_input_output_embed=True)],
    ids=["apart", "shared", "tied"],
)
def test_all_words_are_known_and_the_end_is_new(options):
    stock = tiny.build_model(ONE, **options)
    model, new = loaded(stock, TWO, **options)
    for name, parameter in parameters_of(stock).items():
        now = model.state_dict()[name]
        if now.shape == parameter.shape:
            assert torch.equal(now, parameter)
        else:
            assert torch.equal(now[:END], parameter) and len(parameter) == END
            assert torch.equal(now[END:], new[name][END:]) and len(now) > END


def test_dictionaries_of_their_own():
    stock = tiny.build_model(tiny.task(WORDS, 12))
    task = tiny.double_token_task(source_words=WORDS, target_words=12)
    model, _ = loaded(stock, task)
    sources = model.encoder.embed_tokens.weight
    assert torch.equal(sources, stock.encoder.embed_tokens.weight)
    targets = stock.decoder.embed_tokens.weight
    assert torch.equal(model.decoder.embed_tokens.weight[: len(targets)], targets)


def test_with_one_token_a_step_nothing_else_changes():
    """Learned positions that begin as the sinusoids."""
    task = tiny.double_token_task("l2r", 1, source_words=WORDS)
    stock = tiny.build_model(ONE)
    model, _ = loaded(stock, task)
    net_input = tiny.random_batch(ONE, [3, 7])["net_input"]
    with torch.no_grad():
        torch.testing.assert_close(model(**net_input)[0], stock(**net_input)[0])


def test_a_checkpoint_of_its_own_stays_as_it_is():
    model = tiny.stir(tiny.build_model(TWO, ARCH))
    again, _ = loaded(model, TWO)
    for name, parameter in parameters_of(model).items():
        assert torch.equal(again.state_dict()[name], parameter)


def test_checkpoints_of_fairseq_0_12_2():
    """Sinusoids left an empty entry in them."""
    stock = tiny.build_model(ONE)
    state = {**stock.state_dict(), "decoder.embed_positions._float_tensor": torch.zeros(1)}
    model = tiny.build_model(TWO, ARCH)
    model.load_state_dict(state)
    assert torch.equal(model.decoder.layers[0].fc1.weight, stock.decoder.layers[0].fc1.weight)


def test_models_without_positions():
    options = dict(no_token_positional_embeddings=True)
    model, _ = loaded(tiny.build_model(ONE, **options), TWO, **options)
    assert model.decoder.embed_positions is None
