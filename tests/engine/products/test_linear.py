"""Prepared products, and doing without oneDNN's where torch does not offer them."""

import pytest
import torch
from torch.nn import functional as F

from fairseq_fastdec.engine.products import linear
from fairseq_fastdec.engine.products.linear import PlainLinear


@pytest.fixture(autouse=True)
def fresh_trial(nothing_compiled):
    linear.can_block.cache_clear()
    yield
    linear.can_block.cache_clear()


def missing(*args):
    raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute")


def wrong(x, weight, bias):
    return torch.zeros(*x.shape[:-1], 24)


@pytest.mark.parametrize("name, replacement", [("_blocked", missing), ("_blocked_product", wrong)])
def test_products_that_are_missing_or_wrong_are_not_used(monkeypatch, name, replacement):
    monkeypatch.setattr(linear, name, replacement)
    assert not linear.can_block(torch.float32)
    weight, bias, x = torch.randn(24, 16), torch.randn(24), torch.randn(2, 5, 16)
    assert torch.equal(PlainLinear(weight, bias)(x), F.linear(x, weight, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(16,), (1, 16), (3, 4, 16)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_same_product_with_and_without_preparation(dtype, shape, with_bias):
    weight, x = torch.randn(24, 16, dtype=dtype), torch.randn(*shape, dtype=dtype)
    bias = torch.randn(24, dtype=dtype) if with_bias else None
    torch.testing.assert_close(PlainLinear(weight, bias)(x), F.linear(x, weight, bias))
