"""A view of a decoder computes the same as the decoder, with other copies of wide weights."""

import pytest
import torch
from torch import nn

from fairseq_fastdec.packing.columns import by_columns
from fairseq_fastdec.packing.prepared_model import prepared
from tests.support import tiny

TASK = tiny.task(20)
TOKENS = torch.tensor([[2, 5, 7], [2, 6, 4]])
KINDS = {
    "stock": ("transformer", {}),
    "tied": ("transformer", dict(share_decoder_input_output_embed=True)),
    "heads": ("blockwise_transformer", dict(block_size=3)),
    "sequential": (
        "blockwise_transformer",
        dict(block_size=3, block_heads="sequential", identity_first_head=True),
    ),
}


def built(kind, dtype=torch.float32):
    arch, options = KINDS[kind]
    return tiny.stir(tiny.build_model(TASK, arch, dtype=dtype, **options)).eval()


def linears(decoder):
    return {name: own for name, own in decoder.named_modules() if type(own) is nn.Linear}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_view_is_the_decoder_with_wide_weights_by_columns(kind, dtype):
    model = built(kind, dtype)
    decoder, view = model.decoder, by_columns(model.decoder)
    encoded = model.encoder(torch.tensor([[4, 5, 2], [6, 7, 2]]), torch.tensor([3, 3]))
    expected, found = (own(TOKENS, encoder_out=encoded)[0] for own in (decoder, view))
    assert torch.allclose(found, expected, atol=1e-5 if dtype is torch.float32 else 1e-12)
    assert linears(view).keys() == linears(decoder).keys()
    shapes = set()
    for name, own in linears(decoder).items():
        weight, other = own.weight, linears(view)[name].weight
        is_wide = weight.size(0) >= weight.size(1)
        shapes.add(is_wide)
        assert torch.equal(weight, other) and weight.is_contiguous()
        assert other.t().is_contiguous() if is_wide else other is weight
        assert linears(view)[name].bias is own.bias
    assert shapes == {True, False}
    others = dict(view.named_parameters()).items() - dict(decoder.named_parameters()).items()
    assert all(name.endswith("weight") for name, _ in others)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_not_copied(dtype):
    decoder = built("stock", dtype).decoder
    assert dict(by_columns(decoder).named_parameters()) == dict(decoder.named_parameters())


def test_a_view_is_for_inference_and_leaves_the_decoder_as_it_is():
    decoder = built("heads").decoder.train()
    view = by_columns(decoder)
    assert not any(own.training for own in view.modules())
    assert all(own.training for own in decoder.modules())


def test_a_view_is_made_once_and_follows_the_parameters():
    decoder = built("stock").decoder
    first = prepared(decoder).by_columns()
    assert prepared(decoder).by_columns() is first
    weight = decoder.layers[0].fc1.weight
    optimizer = torch.optim.SGD([weight], lr=1.0)
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    second = prepared(decoder).by_columns()
    assert torch.equal(second.layers[0].fc1.weight, weight)
    assert not torch.equal(first.layers[0].fc1.weight, weight)
    # A weight that has been released has no columns.
    weight.data = torch.empty(0)
    assert by_columns(decoder).layers[0].fc1.weight is weight
