"""Parameters are named and ordered as fairseq's."""

from pathlib import Path

import pytest
import torch

from fairseq_fastdec.importing.huggingface_parameters import (
    Embeddings,
    Parameters,
    layer_shapes,
)
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.vocabularies import Order, reordered

PATH = Path("model")
FAIRSEQ = Order.of(["<s>", "<pad>", "</s>", "<unk>", "a"])
MARIAN = Order.of(["</s>", "<unk>", "a", "<pad>"])


def matrix(order=FAIRSEQ, seed=1):
    n_types = sum(row >= 0 for row in order.rows)
    return torch.randn(n_types, 3, generator=torch.Generator().manual_seed(seed))


def take(tensors, order=FAIRSEQ, is_tied=True, bans_pad=False):
    parameters = Parameters(PATH, tensors)
    embeddings = Embeddings.take(parameters, order, order, is_tied, bans_pad)
    parameters.check_all_used()
    return embeddings


@pytest.mark.parametrize(
    "name",
    [
        "model.shared.weight",
        "shared.weight",
        "lm_head.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
    ],
)
def test_one_matrix_is_shared(name):
    found = take({name: matrix()})
    assert found.source is found.target is found.output
    assert found.sharing() == {
        "share_all_embeddings": True,
        "share_decoder_input_output_embed": True,
    }
    assert set(found.state()) == {f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")}


def test_equal_matrices_are_shared():
    found = take({"shared.weight": matrix(), "lm_head.weight": matrix()})
    assert found.source is found.output


def test_an_output_layer_of_its_own():
    found = take({"shared.weight": matrix(), "lm_head.weight": matrix(seed=2)}, is_tied=False)
    assert not any(found.sharing().values())
    assert torch.equal(found.state()["decoder.output_projection.weight"], matrix(seed=2))


def test_a_missing_output_layer():
    with pytest.raises(UnreadableModel, match=r"model: the parameter lm_head\.weight is missing"):
        take({"shared.weight": matrix()}, is_tied=False)


def test_missing_embeddings():
    with pytest.raises(UnreadableModel, match=r"encoder\.embed_tokens\.weight is missing"):
        take({})


def test_special_types_that_the_model_lacks():
    given = matrix(MARIAN)
    found = take({"shared.weight": given, "final_logits_bias": torch.ones(1, 4)}, MARIAN)
    assert torch.equal(found.target, torch.stack([torch.zeros(3), *given[[3, 0, 1, 2]]]))
    assert found.bias.tolist() == [-1e9, 1, 1, 1, 1]


def test_biases_of_zero_are_left_out():
    given = {"shared.weight": matrix(), "final_logits_bias": torch.zeros(1, 5)}
    assert take(given).bias is None
    assert take(given, bans_pad=True).bias.tolist() == [0, -1e9, 0, 0, 0]


@pytest.mark.parametrize("shape", [(), (3, 3), (6, 3)])
def test_other_numbers_of_rows(shape):
    with pytest.raises(UnreadableModel, match="for 5 types"):
        reordered(PATH, torch.ones(shape), FAIRSEQ)


def test_rows_in_order_are_not_copied():
    rows = matrix()
    assert reordered(PATH, rows, FAIRSEQ) is rows


def test_parameters_without_a_use():
    parameters = Parameters(PATH, {"model.b": torch.ones(1), "a": torch.ones(1)})
    parameters.first("a")
    with pytest.raises(UnreadableModel, match="model: the parameter b has no use"):
        parameters.check_all_used()
    parameters.find("b")
    parameters.check_all_used()


def test_shapes_of_layers():
    shapes = dict(layer_shapes("decoder", 2, 4, 6))
    assert len(shapes) == 2 * 2 * (8 + 2 + 3)
    assert shapes["decoder.layers.1.encoder_attn_layer_norm.bias"] == (4,)
    assert shapes["decoder.layers.0.fc1.weight"] == (6, 4)
    assert shapes["decoder.layers.0.fc1.bias"] == (6,)
    assert not any("encoder_attn" in name for name in dict(layer_shapes("encoder", 1, 4, 6)))


def test_other_shapes():
    parameters = Parameters(PATH, {"a": torch.ones(2, 3)})
    with pytest.raises(UnreadableModel, match=r"a is \(2, 3\), and the config says \(3, 2\)"):
        parameters.of_shape("a", (3, 2))
