"""8-bit products: near the exact ones, and each token by itself."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fairseq_fastdec.engine.products import int8
from fairseq_fastdec.engine.products.int8 import Int8Linear, Int8Rows
from tests.support.compiled import with_int8


@pytest.fixture(params=[pytest.param("compiled", marks=with_int8), "torch"])
def products(request):
    if request.param == "torch":
        request.getfixturevalue("nothing_compiled")


@pytest.fixture
def fresh_trial(nothing_compiled):
    int8.fewer_bits.cache_clear()
    yield
    int8.fewer_bits.cache_clear()


def layer(n_out=24, n_in=64, with_bias=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(n_out, n_in, generator=generator)
    # Channels of very different sizes, one of them empty.
    weight *= torch.logspace(-3, 1, n_out)[:, None]
    weight[3] = 0
    return weight, torch.randn(n_out, generator=generator) if with_bias else None


def largest_error(product, weight, bias, x):
    """In units of what a rounding by half a step can do at most, input and weight together."""
    exact = F.linear(x, weight, bias)
    steps = x.abs().amax(-1, keepdim=True) * weight.abs().sum(-1) / 127
    steps += x.abs().sum(-1, keepdim=True) * weight.abs().amax(-1) / 127
    return ((product - exact).abs() / steps.clamp(min=1e-20)).max().item()


@pytest.mark.parametrize("shape", [(64,), (1, 64), (5, 64), (3, 4, 64), (0, 64)], ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
def test_products_are_near_the_exact_ones(products, shape, with_bias):
    weight, bias = layer(with_bias=with_bias)
    x = torch.randn(*shape)
    product = Int8Linear(weight, bias)(x)
    assert product.shape == (*shape[:-1], 24) and product.dtype == torch.float32
    if x.numel():
        assert largest_error(product, weight, bias, x) < 0.6


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n_tokens=st.integers(1, 40),
    others=st.floats(1e-6, 1e6),
    seed=st.integers(0, 99),
)
def test_a_token_does_not_feel_its_neighbours(products, n_tokens, others, seed):
    generator = torch.Generator().manual_seed(seed)
    product = Int8Linear(*layer(seed=seed))
    x = torch.randn(n_tokens, 64, generator=generator)
    alone = torch.cat([product(token[None]) for token in x])
    x = torch.cat([x, others * torch.randn(3, 64, generator=generator)])
    assert torch.equal(product(x)[:n_tokens], alone)


@with_int8
@settings(max_examples=60, deadline=None)
@given(
    n_tokens=st.integers(0, 20),
    n_in=st.integers(1, 90),
    n_out=st.integers(4, 100),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_compiled_products_are_sums_of_whole_numbers(n_tokens, n_in, n_out, with_bias, seed):
    weight, bias = layer(n_out, n_in, with_bias, seed)
    x = torch.randn(n_tokens, n_in, generator=torch.Generator().manual_seed(seed))
    units, own = weight.abs().amax(1).double() / 127, x.abs().amax(1).double() / 127
    sums = (x / own[:, None]).round() @ (weight / units.clamp(min=1e-30)[:, None]).round().t()
    expected = sums * own[:, None] * units + (bias if with_bias else 0)
    product = Int8Linear(weight, bias)
    assert product.packed is not None
    # Codes half-way between two steps may be rounded either way: one step of one input.
    allowed = (own[:, None] * weight.abs().amax(1) * 1.01).clamp(min=1e-5)
    assert bool(((product(x) - expected).abs() <= allowed).all())
    nearly = (product(x) - expected).abs() <= 1e-5 * (1 + expected.abs())
    assert nearly.double().mean() > 0.9 if n_tokens else not nearly.numel()


def test_some_outputs_alone(products):
    weight, bias = layer(n_out=70, n_in=30)
    x, outputs = torch.randn(5, 30), torch.tensor([3, 8, 9, 33, 69])
    some = Int8Rows(weight, bias).take(outputs)(x)
    torch.testing.assert_close(some, Int8Linear(weight, bias)(x)[:, outputs])


def test_tokens_of_zeros_give_the_bias(products):
    weight, bias = layer()
    assert torch.equal(Int8Linear(weight, bias)(torch.zeros(2, 64)), bias.expand(2, -1))


def test_sums_too_large_for_16_bits(products):
    """All products of one sign and as large as they get: where processors without VNNI overflow."""
    weight = torch.ones(8, 64)
    x = torch.ones(2, 64)
    torch.testing.assert_close(Int8Linear(weight)(x), torch.full((2, 8), 64.0), rtol=2e-2, atol=0)


def overflowing(weight, scale, reduce_range):
    exact = INT8_PRODUCT(weight, scale, reduce_range)
    return exact if reduce_range else lambda x: exact(x) / 2


def missing(*args):
    raise AttributeError("'_OpNamespace' 'quantized' object has no attribute")


INT8_PRODUCT = int8._int8_product


@pytest.mark.parametrize(
    "trial, expected", [(overflowing, True), pytest.param(missing, None, marks=with_int8)]
)
def test_processors_and_versions_that_cannot(monkeypatch, fresh_trial, trial, expected):
    weight, bias = layer()
    x = torch.randn(5, 64)
    usual = Int8Linear(weight, bias)(x)
    int8.fewer_bits.cache_clear()
    monkeypatch.setattr(int8, "_int8_product", trial)
    assert int8.fewer_bits() is expected
    product = Int8Linear(weight, bias)(x)
    assert largest_error(product, weight, bias, x) < 1.2
    if expected is None:
        # A number half-way between two steps, as -1 is, may be rounded either way.
        step = x.abs().amax(-1, keepdim=True) / 127.5 * weight.abs().amax(-1)
        assert bool(((product - usual).abs() <= 1.01 * step + 1e-5).all())
