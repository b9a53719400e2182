"""Prediction heads by compiled code: what torch computes layer by layer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fairseq_fastdec.engine.kernels.heads import CompiledHeads
from fairseq_fastdec.engine.products.precision import PRECISIONS
from tests.support.compiled import PRECISIONS as NAMES
from tests.support.compiled import compiled


def layers_of(precision, n_heads, dim, units, shared):
    generator = torch.Generator().manual_seed(n_heads * dim + units)
    shapes = [(units, dim)]
    if shared:
        shapes.append((n_heads * dim, units))
    else:
        shapes += [(dim, units // n_heads)] * n_heads
    return [
        PRECISIONS[precision].linear(
            torch.randn(*shape, generator=generator), torch.randn(shape[0], generator=generator)
        )
        for shape in shapes
    ]


def by_torch(layers, x, n_heads, activation):
    hidden, *outputs = layers
    inner = activation(hidden(x))
    if len(outputs) == 1:
        return x.unsqueeze(-2) + outputs[0](inner).unflatten(-1, (n_heads, -1))
    shares = inner.chunk(n_heads, dim=-1)
    own = [output(share) for output, share in zip(outputs, shares)]
    return x.unsqueeze(-2) + torch.stack(own, dim=-2)


@compiled
@pytest.mark.parametrize("precision", NAMES)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_what_torch_computes(precision, data):
    n_heads, dim = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([8, 20, 33]))
    units = n_heads * data.draw(st.sampled_from([8, 24, 37]))
    shared, is_gelu = data.draw(st.booleans()), data.draw(st.booleans())
    n, n_threads = data.draw(st.integers(0, 9)), data.draw(st.integers(1, 3))
    layers = layers_of(precision, n_heads, dim, units, shared)
    packed = [layer.packed for layer in layers]
    heads = CompiledHeads.of(packed[0], packed[1:], n_heads, is_gelu)
    x = torch.randn(n, dim, generator=torch.Generator().manual_seed(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: n_threads)
        ours = heads(x)
    expected = by_torch(layers, x, n_heads, F.gelu if is_gelu else F.relu)
    # GELU's approximation may round to another integer or bf16 number.
    tolerance = 1e-3 if precision == "model" else (0.5 if is_gelu else 1e-3)
    torch.testing.assert_close(ours, expected, atol=tolerance, rtol=tolerance)


@compiled
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("precision", NAMES)
def test_the_first_ones_share_the_memory_of_all(precision, shared):
    """Of 20 numbers for each head some of a block of outputs are another head's."""
    packed = [layer.packed for layer in layers_of(precision, 4, 20, 4 * 37, shared)]
    heads = CompiledHeads.of(packed[0], packed[1:], 4, False)
    x = torch.randn(3, 20, generator=torch.Generator().manual_seed(3))
    expected = heads(x)
    for n in (3, 1):
        torch.testing.assert_close(heads.first(n)(x), expected[:, :n], atol=1e-5, rtol=1e-5)
    assert torch.equal(heads(x), expected)


@compiled
def test_layers_that_are_not_packed_have_none():
    packed = [layer.packed for layer in layers_of("model", 2, 8, 16, True)]
    assert CompiledHeads.of(None, packed[1:], 2, False) is None
    assert CompiledHeads.of(packed[0], [None], 2, False) is None


@compiled
def test_numbers_of_other_kinds_are_refused():
    packed = [layer.packed for layer in layers_of("model", 2, 8, 16, True)]
    heads = CompiledHeads.of(packed[0], packed[1:], 2, False)
    with pytest.raises(ValueError, match="features: torch.float64"):
        heads(torch.zeros(3, 8, dtype=torch.float64))
    wrong = CompiledHeads.of(packed[0], packed[1:], 3, False)
    with pytest.raises(ValueError, match="sizes that do not fit"):
        wrong(torch.zeros(3, 8))


def test_without_compiled_code_there_are_none(nothing_compiled):
    assert CompiledHeads.of(None, [], 2, False) is None
