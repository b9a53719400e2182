"""Products of compiled code, against products in double precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.kept_product import KeptProduct
from fairseq_fastdec.engine.kernels.packed import PackedLinear
from fairseq_fastdec.engine.products.int8 import Int8Linear
from fairseq_fastdec.engine.products.linear import BFloat16Linear, PlainLinear
from tests.support.at_once import at_once
from tests.support.compiled import compiled, with_bf16, with_int8

KINDS = [
    PlainLinear,
    pytest.param(BFloat16Linear, marks=with_bf16),
    pytest.param(Int8Linear, marks=with_int8),
]


@compiled
@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), max_size=2),
    n_inputs=st.integers(1, 70),
    n_outputs=st.integers(1, 140),
    biased=st.booleans(),
    strided=st.booleans(),
)
def test_products(shape, n_inputs, n_outputs, biased, strided):
    torch.manual_seed(n_inputs)
    weight = torch.randn(n_outputs, n_inputs)
    bias = torch.randn(n_outputs) if biased else None
    x = torch.randn(*shape, 2 * n_inputs)[..., ::2] if strided else torch.randn(*shape, n_inputs)
    expected = torch.nn.functional.linear(
        x.double(), weight.double(), bias.double() if biased else None
    )
    torch.testing.assert_close(
        PlainLinear(weight, bias)(x).double(), expected, atol=1e-4, rtol=1e-4
    )


@with_bf16
@settings(max_examples=60, deadline=None)
@given(
    n_tokens=st.integers(0, 18),
    n_inputs=st.integers(1, 70),
    n_outputs=st.integers(1, 140),
    biased=st.booleans(),
)
def test_products_in_bf16(n_tokens, n_inputs, n_outputs, biased):
    """Of rounded numbers; the sums and the bias are not rounded."""
    torch.manual_seed(n_inputs)
    weight, x = torch.randn(n_outputs, n_inputs), torch.randn(n_tokens, n_inputs)
    bias = torch.randn(n_outputs) if biased else None
    expected = x.bfloat16().double() @ weight.bfloat16().double().t()
    if biased:
        expected += bias.double()
    product = BFloat16Linear(weight, bias)
    assert product.packed is not None
    torch.testing.assert_close(product(x).double(), expected, atol=1e-4, rtol=1e-4)


@compiled
def test_products_of_other_numbers():
    assert PackedLinear.of(torch.zeros(4, 4, dtype=torch.float64), None) is None
    assert PackedLinear.of(torch.zeros(4, 4, device="meta"), None) is None
    with pytest.raises(TypeError, match="float64 where fp32"):
        PlainLinear(torch.zeros(4, 4))(torch.zeros(4, dtype=torch.float64))


@compiled
@pytest.mark.parametrize(
    "kind",
    [
        PlainLinear,
        pytest.param(BFloat16Linear, marks=with_bf16),
        pytest.param(Int8Linear, marks=with_int8),
    ],
)
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


@compiled
@pytest.mark.parametrize("kind", KINDS)
def test_products_in_memory_that_is_kept(kind):
    """Whatever came before, they are those of other memory."""
    layer = kind(torch.randn(100, 37, generator=torch.Generator().manual_seed(0)))
    product = KeptProduct(layer.packed)
    for n in (3, 1, 40, 0, 7):
        x, y = torch.randn(n, 37), torch.full((n, 100), math.nan)
        product.compute_at(x.data_ptr(), n, y.data_ptr())
        assert torch.equal(y, layer(x))
