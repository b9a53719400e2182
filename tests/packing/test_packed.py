"""Products of compiled code, against products in double precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fairseq_fastdec.packing.packed import PackedBFloat16, PackedInt8, PackedLinear
from tests.support.at_once import at_once
from tests.support.compiled import INSTRUCTION_SETS, compiled, examples, threads, using

pytestmark = compiled

KINDS = [PackedLinear, PackedBFloat16, PackedInt8]
# Tiles need rows of 64 bytes.
FULL_TILES = 128


@pytest.fixture(params=INSTRUCTION_SETS)
def instruction_set(request):
    with using(request.param):
        yield request.param


def quantized(numbers):
    """Numbers as 8-bit integers of each row, and the rows' scales."""
    scales = numbers.abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / 127
    return (numbers / scales).round(), scales


def expected_product(kind, x, weight, bias):
    """In double precision, of the numbers that a kind multiplies."""
    if kind is PackedBFloat16:
        x, weight = x.bfloat16(), weight.bfloat16()
    if kind is PackedInt8:
        (x, of_x), (weight, of_weight) = quantized(x), quantized(weight)
        return x.double() @ weight.double().t() * of_x * of_weight.t() + (
            0 if bias is None else bias
        )
    return F.linear(x.double(), weight.double(), None if bias is None else bias.double())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(60))
@given(
    n_tokens=st.integers(0, 70),
    n_inputs=st.one_of(st.integers(1, 70), st.just(FULL_TILES)),
    n_outputs=st.integers(1, 140),
    biased=st.booleans(),
    strided=st.booleans(),
    isa=st.sampled_from(INSTRUCTION_SETS or [""]),
)
def test_products(kind, n_tokens, n_inputs, n_outputs, biased, strided, isa):
    torch.manual_seed(n_inputs)
    weight = torch.randn(n_outputs, n_inputs)
    bias = torch.randn(n_outputs) if biased else None
    x = torch.randn(n_tokens, 2 * n_inputs)[:, ::2] if strided else torch.randn(n_tokens, n_inputs)
    expected = expected_product(kind, x, weight, bias)
    with using(isa):
        found = kind(weight, bias)(x)
    atol = 1e-4
    if kind is PackedInt8 and n_tokens:
        # An input that lies between two integers may be rounded either way.
        atol += (x.abs().max() * weight.abs().max()).item() / 127
    torch.testing.assert_close(found.double(), expected.double(), atol=atol, rtol=1e-4)


@pytest.mark.parametrize("n_inputs", [129, FULL_TILES])
@pytest.mark.parametrize("kind", KINDS)
def test_a_token_gives_the_same_among_others_and_in_any_number_of_threads(
    kind, n_inputs, instruction_set
):
    torch.manual_seed(0)
    layer, x = kind(torch.randn(300, n_inputs), torch.randn(300)), torch.randn(41, n_inputs)
    expected = torch.cat([layer(own[None]) for own in x])
    for n_threads in (1, 2, 3):
        with threads(n_threads):
            assert torch.equal(layer(x), expected)


@pytest.mark.parametrize("n_tokens, n_inputs", [(5, 100), (50, FULL_TILES)])
def test_all_instruction_sets_give_the_same_integers(n_tokens, n_inputs):
    torch.manual_seed(0)
    layer, x = PackedInt8(torch.randn(64, n_inputs)), torch.randn(n_tokens, n_inputs)
    found = []
    for name in INSTRUCTION_SETS:
        with using(name):
            found.append(layer(x))
    for other in found[:-1]:
        torch.testing.assert_close(other, found[-1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_any_shape(kind):
    layer = kind(torch.randn(7, 5))
    x = torch.randn(2, 3, 5)
    assert torch.equal(layer(x), layer(x.flatten(0, 1)).view(2, 3, 7))
    assert torch.equal(layer(x[0, 0]), layer(x[0, :1])[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite(kind, bad, instruction_set):
    """Otherwise a broken model would translate; the search reports such scores."""
    x = torch.randn(20, 70)
    for token in range(20):
        x[token, 3 * token] = bad
    found = kind(torch.randn(40, 70))(torch.cat([x, torch.randn(1, 70)]))
    assert not found[:20].isfinite().any() and found[20].isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_zeros(kind):
    torch.testing.assert_close(kind(torch.zeros(6, 5))(torch.randn(2, 5)), torch.zeros(2, 6))
    bias = torch.randn(6)
    assert torch.equal(kind(torch.randn(6, 5), bias)(torch.zeros(2, 5)), bias.expand(2, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_several_threads_share_a_layer(kind):
    """While one is in compiled code, the others run Python."""
    torch.manual_seed(0)
    layer = kind(torch.randn(300, 128), torch.randn(300))
    inputs = [torch.randn(n_tokens, 128) for n_tokens in (40, 20, 3)]
    alone = [layer(x) for x in inputs]

    def products(x):
        return lambda: [layer(x) for _ in range(200)]

    for found, expected in zip(at_once(*map(products, inputs)), alone):
        assert all(torch.equal(y, expected) for y in found)


def test_layers_without_numbers_are_refused():
    with pytest.raises(ValueError, match="without inputs or outputs"):
        PackedLinear(torch.zeros(4, 0))


def test_weights_of_8_bit_models_are_not_rounded_again():
    """Layers of several matrices, each with its scale, and a channel without a weight of 1."""
    torch.manual_seed(0)
    integers = torch.randint(-127, 128, (200, 64)).float()
    integers[70] = (integers[70] / 5).round() * 5
    integers[90] = 0
    weight = integers * torch.tensor([0.013, 0.4]).repeat_interleave(100)[:, None]
    # All inputs are whole numbers up to 127, so they are not rounded, either.
    x = torch.randint(-127, 128, (5, 64)).float()
    x[:, 0] = 127
    exact = x.double() @ weight.double().t()
    scale = exact.abs().max()
    assert (PackedInt8(weight)(x) - exact).abs().max() < 1e-6 * scale
    rounded = weight + 0.1 * weight[:, :1]
    assert (PackedInt8(rounded)(x) - x @ rounded.t()).abs().max() > 1e-5 * scale
