"""Layers whose outputs 8-bit integers would change too much are not trusted to them."""

import torch
from torch.nn import functional as F

from fairseq_fastdec.packing.packed import PackedBFloat16, PackedInt8
from fairseq_fastdec.packing.trial import LARGEST_ERROR, Untried, relative_error, tried
from tests.support.compiled import compiled

pytestmark = compiled

N_IN, N_OUT = 64, 96


def layer(outlier=1.0, seed=0):
    """A layer and inputs, of which one channel is larger, and its weights as much smaller."""
    generator = torch.Generator().manual_seed(seed)
    weight, x = (torch.randn(n, N_IN, generator=generator) for n in (N_OUT, 20))
    weight[:, 5] /= outlier
    x[:, 5] *= outlier
    return weight, torch.randn(N_OUT, generator=generator), x


def test_layers_are_trusted():
    weight, bias, x = layer()
    made, error = tried(Untried(weight, bias), x)
    assert 0 < error < LARGEST_ERROR / 2
    assert type(made) is PackedInt8


def test_outliers_are_noticed():
    weight, bias, x = layer(outlier=100.0)
    exact = F.linear(x, weight, bias)
    assert relative_error(PackedInt8(weight, bias)(x), exact) > 2 * LARGEST_ERROR
    made, error = tried(Untried(weight, bias), x)
    assert type(made) is PackedBFloat16 and error > 2 * LARGEST_ERROR
    assert relative_error(made(x), exact) < 0.01


def test_a_large_bias_hides_nothing():
    weight, bias, x = layer(outlier=100.0)
    made, _ = tried(Untried(weight, 1000 * bias), x)
    assert type(made) is PackedBFloat16


def test_layers_that_give_nothing_are_trusted():
    made, error = tried(Untried(torch.zeros(N_OUT, N_IN)), torch.randn(3, N_IN))
    assert type(made) is PackedInt8 and error == 0


def test_inputs_that_are_no_numbers_are_not_trusted():
    weight, bias, x = layer()
    made, _ = tried(Untried(weight, bias), x * float("nan"))
    assert type(made) is PackedBFloat16
