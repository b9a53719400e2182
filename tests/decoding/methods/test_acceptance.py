"""Each rule of acceptance on distributions that are written down."""

import math

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_fastdec.decoding.methods.acceptance import acceptance_of, integer_values
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.trained_models import TASK

# The probabilities of types 4 to 8, of which type 8 is forbidden.
LOG_PROBS = torch.full((1, 1, 9), -math.inf)
LOG_PROBS[0, 0, 4:8] = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()


def numbers():
    """Types 4, 5, ... are the numbers 10, 11, 12, 15, 20."""
    words = tiny.dictionary(0)
    for value in (10, 11, 12, 15, 20):
        words.add_symbol(str(value))
    return words


def accepts(token, dictionary=TASK.target_dictionary, log_probs=LOG_PROBS, **options):
    test, _ = acceptance_of(DecodingOptions(decoding="blockwise", **options), dictionary)
    return test(torch.tensor([[token]]), log_probs).item()


def test_exact():
    assert [token for token in range(9) if accepts(token)] == [4]


@pytest.mark.parametrize("n, expected", [(1, [4]), (2, [4, 5]), (9, [4, 5, 6, 7])])
def test_among_the_best(n, expected):
    found = [token for token in range(9) if accepts(token, acceptance="topk", acceptance_topk=n)]
    assert found == expected


@pytest.mark.parametrize("epsilon, expected", [(0, [4]), (1, [4, 5]), (5, [4, 5, 6, 7])])
def test_within_a_distance(epsilon, expected):
    options = dict(acceptance="distance", acceptance_distance=epsilon)
    assert [token for token in range(9) if accepts(token, numbers(), **options)] == expected


def test_words_have_no_distance():
    with pytest.raises(ValueError, match="must consist of integers, but has 'w0'"):
        accepts(4, acceptance="distance")


def test_at_least_some_tokens():
    log_probs = LOG_PROBS.expand(1, 3, 9)
    test, _ = acceptance_of(
        DecodingOptions(decoding="blockwise", min_block_size=3), TASK.target_dictionary
    )
    assert test(torch.tensor([[7, 7, 7]]), log_probs).tolist() == [[True, True, False]]
    assert test(torch.tensor([[8, 4, 4]]), log_probs).tolist() == [[False, True, True]]


def test_the_integers_of_symbols():
    words = Dictionary()
    for symbol in ("7", "-12", "madeupword0000"):
        words.add_symbol(symbol)
    values = integer_values(words).tolist()
    assert values[4:6] == [7, -12]
    assert all(map(math.isnan, values[:4] + values[6:]))


def test_words_are_no_integers():
    words = Dictionary()
    words.add_symbol("seven")
    with pytest.raises(ValueError, match="integers, but has 'seven'; use --acceptance exact or"):
        integer_values(words)
