"""Dictionaries, options and modules of imported models."""

from dataclasses import replace

import pytest
import torch

from fairseq_fastdec.importing.building import dictionary_of, model_of, options_of
from fairseq_fastdec.importing.imported import UnreadableModel
from tests.support.imported_models import ARCHITECTURES, built, random_model


def test_a_dictionary_has_the_symbols_in_order():
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "<mask>"]
    dictionary = dictionary_of(symbols)
    assert dictionary.symbols == symbols
    specials = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk())
    assert specials == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "symbols, why",
    [
        (["<pad>", "<s>", "</s>", "<unk>", "a"], "does not begin with <s>, <pad>, </s>, <unk>"),
        (["<s>", "<pad>"], "does not begin with"),
        (["<s>", "<pad>", "</s>", "<unk>", "a", "b", "a"], "has 'a' twice"),
        (["<s>", "<pad>", "</s>", "<unk>", "</s>"], "has '</s>' twice"),
    ],
)
def test_vocabularies_that_are_refused(symbols, why):
    with pytest.raises(UnreadableModel, match=why):
        dictionary_of(symbols)


def test_missing_options_have_the_defaults_of_the_architecture():
    imported = random_model("one pair", "ssru_transformer")
    args = options_of(replace(imported, options={"encoder_layers": 3}))
    assert (args.encoder_layers, args.decoder_layers, args.decoder_autoreg) == (3, 2, "ssru")
    args = options_of(replace(imported, arch="transformer", options={}))
    assert args.encoder_embed_dim == 512 and not hasattr(args, "decoder_autoreg")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_models_have_the_parameters(arch):
    imported = random_model("one pair", arch)
    model, _ = built(imported)
    assert not model.training
    state = model.state_dict()
    assert all(torch.equal(state[name], own) for name, own in imported.state.items())


def test_an_output_layer_is_shared():
    imported = random_model("one pair", "marian_transformer", share_all_embeddings=True)
    assert "decoder.output_projection.weight" not in imported.state
    model, _ = built(imported)
    assert model.decoder.output_projection.weight is model.encoder.embed_tokens.weight


@pytest.mark.parametrize(
    "change, why",
    [
        ({"decoder.layers.0.fc1.bias": None}, "Missing key.*decoder.layers.0.fc1.bias"),
        ({"decoder.layers.0.fc1.bias": torch.zeros(3)}, "size mismatch for decoder.layers.0.fc1"),
        ({"decoder.layers.7.fc1.bias": torch.zeros(3)}, "Unexpected key.*decoder.layers.7"),
    ],
)
def test_parameters_that_do_not_fit(change, why):
    imported = random_model("one pair")
    state = {name: own for name, own in {**imported.state, **change}.items() if own is not None}
    _, task = built(imported)
    broken = replace(imported, state=state)
    with pytest.raises(UnreadableModel, match=why) as error:
        model_of(broken, options_of(broken), task)
    assert "\n" not in str(error.value)
