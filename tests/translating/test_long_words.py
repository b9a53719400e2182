"""Long words have subword-nmt's subwords, in less time."""

import io
import pickle
import random
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE, encode

from examples.common.en_de import MODEL
from fairseq_fastdec.translating import long_words

CODES = (MODEL / "bpe.codes").read_text(encoding="utf-8")
# In the second file, a merge comes before the merges of its parts, and in the third one the end of
# a word is a symbol.
FILES = [
    CODES,
    "#version: 0.2\nab c\na b\nb b\nb c\nabc a</w>\nbb a\n",
    "a b\na a\nb </w>\nab ab\n",
]


def stock(word, bpe):
    return encode(word, bpe.bpe_codes, bpe.bpe_codes_reverse, None, "@@", bpe.version, {})


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2), st.text("abc", min_size=2, max_size=60) | st.text(min_size=2))
def test_subwords_are_those_of_subword_nmt(number, word):
    bpe = BPE(io.StringIO(FILES[number]))
    assert long_words.subwords(word, bpe.bpe_codes, bpe.version) == stock(word, bpe)


def test_words_of_all_lengths():
    letters = random.Random(1).choices("enristadhulcgmobwfkzvpjyqx", k=3000)
    words = ["".join(letters[:n]) for n in (1, 2, 39, 40, 41, 42, 300, 3000)]
    usual, faster = BPE(io.StringIO(CODES)), BPE(io.StringIO(CODES))
    long_words.speed_up_long_words(faster)
    for _ in range(2):
        assert faster.process_line(" ".join(words)) == usual.process_line(" ".join(words))
    assert pickle.loads(pickle.dumps(faster)).segment(words[-1]) == usual.segment(words[-1])
    faster.cache.clear()
    assert faster.segment(words[-1]) == usual.segment(words[-1])


def test_other_objects_stay():
    with_glossary, other = BPE(io.StringIO(CODES), glossaries=["x"]), SimpleNamespace(cache=1)
    for bpe in (with_glossary, other):
        before = bpe.cache
        for coder in (bpe, SimpleNamespace(bpe=bpe)):
            long_words.speed_up_long_words(coder)
            assert bpe.cache is before
    long_words.speed_up_long_words(None)


def test_time_is_almost_linear():
    letters = "".join(random.Random(1).choices("enristadhulcgmobwfkzvpjyqx", k=40_000))
    bpe, times = BPE(io.StringIO(CODES)), []
    for n in (10_000, 40_000):
        tries = []
        for _ in range(3):
            start = time.process_time()
            long_words.subwords(letters[:n], bpe.bpe_codes, bpe.version)
            tries.append(time.process_time() - start)
        times.append(min(tries))
    assert times[1] < 9 * times[0]


@pytest.mark.parametrize("version", [(0, 1), (0, 2)])
def test_a_word_without_merges(version):
    assert long_words.subwords("abc", {}, version) == ("a", "b", "c")
