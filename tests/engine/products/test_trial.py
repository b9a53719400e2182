"""Layers whose outputs 8-bit integers would change too much are not trusted to them."""

import torch
from torch.nn import functional as F

from fairseq_fastdec.engine.kernels.packed import PackedBFloat16, PackedInt8
from fairseq_fastdec.engine.products.trial import LARGEST_ERROR, Int8Trial, relative_error
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
    trial = Int8Trial(weight, bias)
    y = trial(x)
    assert trial.is_trusted and 0 < trial.error < LARGEST_ERROR / 2
    assert type(trial.layer) is PackedInt8
    assert torch.equal(y, PackedInt8(weight, bias)(x))


def test_outliers_are_noticed():
    weight, bias, x = layer(outlier=100.0)
    exact = F.linear(x, weight, bias)
    assert relative_error(PackedInt8(weight, bias)(x), exact) > 2 * LARGEST_ERROR
    trial = Int8Trial(weight, bias)
    y = trial(x)
    assert not trial.is_trusted and trial.error > 2 * LARGEST_ERROR
    assert type(trial.layer) is PackedBFloat16
    # From these very inputs on.
    assert relative_error(y, exact) < 0.01


def test_one_bad_sentence_is_enough():
    weight, bias, x = layer()
    trial = Int8Trial(weight, bias)
    trial(x)
    assert trial.is_trusted
    weight, bias, x = layer(outlier=100.0)
    trial = Int8Trial(weight, bias)
    trial(torch.zeros_like(x))
    assert trial.is_trusted
    trial(x)
    assert not trial.is_trusted
    trial(torch.zeros_like(x))
    assert not trial.is_trusted


def test_a_large_bias_hides_nothing():
    weight, bias, x = layer(outlier=100.0)
    trial = Int8Trial(weight, 1000 * bias)
    trial(x)
    assert not trial.is_trusted


def test_layers_that_give_nothing_are_trusted():
    trial = Int8Trial(torch.zeros(N_OUT, N_IN), None)
    trial(torch.randn(3, N_IN))
    assert trial.error == 0 and trial.is_trusted
