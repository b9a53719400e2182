"""Dictionaries whose symbols are integers."""

import math

import pytest
from fairseq.data import Dictionary

from fairseq_fastdec.data.integer_symbols import integer_values


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
