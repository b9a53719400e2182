"""Small numbers, without torch where they are few."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.engine.network.counting import (
    FEW,
    alike,
    count_tokens,
    extremes,
    filled,
    first_numbers,
    nothing,
)

CPU = torch.device("cpu")
PAD = 1


@pytest.mark.parametrize("n", [0, 1, FEW, FEW + 1])
def test_first_numbers(n):
    numbers = first_numbers(n, CPU)
    assert numbers.tolist() == list(range(n)) and numbers.dtype == torch.long


def test_few_numbers_are_made_once():
    assert first_numbers(3, CPU) is first_numbers(3, CPU)
    assert first_numbers(FEW + 1, CPU) is not first_numbers(FEW + 1, CPU)


@given(shape=st.tuples(st.integers(0, 5), st.integers(0, 2 * FEW)), seed=st.integers(0, 99))
def test_tokens_are_those_that_are_no_padding(shape, seed):
    tokens = torch.randint(3, shape, generator=torch.Generator().manual_seed(seed))
    counted = count_tokens(tokens, PAD)
    assert torch.equal(counted, tokens.ne(PAD).sum(dim=1)) and counted.dtype == torch.long


def test_the_length_of_one_row_is_made_once():
    rows = torch.tensor([[5, 6, PAD]]), torch.tensor([[7, 8]])
    assert count_tokens(rows[0], PAD) is count_tokens(rows[1], PAD)


@pytest.mark.parametrize("shape", [(0, 4), (1, 5), (3, 2)])
def test_filled(shape):
    numbers = filled(shape, 7, CPU)
    assert torch.equal(numbers, torch.full(shape, 7)) and numbers.dtype == torch.long


@pytest.mark.parametrize("n", [0, 1, FEW, FEW + 1])
def test_numbers_that_are_alike(n):
    assert torch.equal(alike(n, 5, CPU), torch.full((n,), 5))
    assert (alike(n, 5, CPU) is alike(n, 5, CPU)) == (n <= FEW)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3), (0, 4), (2, 0), ()])
def test_extremes_of_any_shape(shape):
    n = torch.Size(shape).numel()
    numbers = torch.arange(1, 1 + n).view(shape)
    assert extremes(numbers) == ((1, n) if n else (0, 0))


@pytest.mark.parametrize("numbers", [[], [3], [5, -2, 7], list(range(FEW + 1))])
def test_extremes(numbers):
    expected = (min(numbers), max(numbers)) if numbers else (0, 0)
    assert extremes(torch.tensor(numbers, dtype=torch.long)) == expected


def test_nothing():
    for dtype in (torch.long, torch.bool):
        assert nothing(dtype, CPU).shape == (0,) and nothing(dtype, CPU).dtype == dtype
