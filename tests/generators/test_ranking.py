"""The first maximum against torch's."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators import ranking
from fairseq_fastdec.generators.ranking import CHUNK, first_maximum


@pytest.fixture(autouse=True, scope="module")
def few_scores_are_enough():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "MIN_SCORES", 1)
        yield


def assert_first_maximum(scores):
    values, indices = first_maximum(scores)
    expected = scores.max(dim=-1).values
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    same = scores.eq(expected[..., None]) | scores.isnan() & expected[..., None].isnan()
    first = same.long().cumsum(dim=-1).eq(0).sum(dim=-1)
    assert torch.equal(indices, first)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 16),
    st.integers(1, 3),
    st.integers(1, 5 * CHUNK),
    st.integers(1, 4),
    st.integers(0, 10**6),
)
def test_it_is_the_first_among_equals(n_rows, n_tokens, n_types, n_values, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (n_rows, n_tokens, n_types)
    assert_first_maximum(torch.randint(n_values, shape, generator=generator).float())


@pytest.mark.parametrize("n_types", [3 * CHUNK, 3 * CHUNK + 1, 4 * CHUNK - 1])
@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_infinities_and_nan(n_types, value):
    scores = torch.randn(8, n_types)
    scores[1] = value
    scores[2, -1] = value
    scores[3, CHUNK:] = value
    assert_first_maximum(scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_and_layouts(dtype):
    scores = torch.randn(8, 4, 3 * CHUNK + 5).to(dtype)
    assert_first_maximum(scores)
    assert_first_maximum(scores[:, 1])
    assert_first_maximum(scores.transpose(0, 1)[..., 2:])
