"""The tokens that begin and end a sentence in each order of decoding."""

import pytest

from fairseq_fastdec.orders.special_tokens import (
    EOD,
    add_end_of_decoding,
    end_token,
    start_tokens,
)
from fairseq_fastdec.orders.token_order import LEFT_TO_RIGHT, TokenOrder
from tests.support import tiny


@pytest.mark.parametrize("n_words, size", [(20, 32), (19, 24)])
def test_the_dictionary_stays_padded(n_words, size):
    words = tiny.dictionary(n_words)
    before = words.symbols[:]
    add_end_of_decoding(words)
    assert len(words) == size and words.symbols[: len(before) + 1] == [*before, EOD]
    add_end_of_decoding(words)
    assert len(words) == size


def test_one_token_a_step_begins_and_ends_as_fairseq_does():
    words = tiny.dictionary(9)
    assert end_token(LEFT_TO_RIGHT, words) == words.eos()
    assert start_tokens(LEFT_TO_RIGHT, words) == (words.eos(),)


def test_two_tokens_a_step_end_with_a_token_of_their_own():
    words, order = tiny.dictionary(9), TokenOrder("l2r", 2)
    add_end_of_decoding(words)
    assert words[end_token(order, words)] == EOD
    assert start_tokens(order, words) == (words.bos(), words.eos())
