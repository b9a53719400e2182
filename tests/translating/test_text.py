"""Text becomes the tokens, and tokens the text, that fairseq's tools give."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary, encoders
from hypothesis import given
from hypothesis import strategies as st

from examples.common.en_de import MODEL
from fairseq_fastdec.translating import text as text_module
from fairseq_fastdec.translating.results import Problem
from fairseq_fastdec.translating.text import Moses, SubwordNMT, TextCodec, Words, codec_of
from tests.support.odd_text import texts

CODES = MODEL / "bpe.codes"
DICTIONARY = Dictionary.load(str(MODEL / "dict.de.txt"))
NAMES = Namespace(
    tokenizer="moses", bpe="subword_nmt", bpe_codes=str(CODES), source_lang="en", target_lang="de"
)


def stock_coders():
    return encoders.build_tokenizer(NAMES), encoders.build_bpe(NAMES)


STOCK_MOSES, STOCK_BPE = stock_coders()
WORDS = {
    "symbols": "\n".join(DICTIONARY.symbols).encode(),
    "bos": DICTIONARY.bos(),
    "eos": DICTIONARY.eos(),
    "unk": DICTIONARY.unk(),
}
MOSES = {"source_lang": "en", "target_lang": "de", "dash_splits": True, "escape": True}
CODERS = [("Moses", MOSES), ("SubwordNMT", {"codes": CODES.read_bytes(), "separator": "@@"})]


def codecs():
    """That of a bundle, and one with fairseq's dictionaries and coders."""
    return [codec_of(WORDS, WORDS, CODERS), TextCodec(DICTIONARY, DICTIONARY, stock_coders())]


CODECS = codecs()


@given(text=texts)
def test_tokens_are_those_of_fairseq(text):
    segmented = STOCK_BPE.encode(STOCK_MOSES.encode(text))
    line = DICTIONARY.encode_line(segmented, add_if_not_exist=False).tolist()
    assert [codec.encode(text) for codec in CODECS] == [line, line]


@given(numbers=st.lists(st.integers(0, len(DICTIONARY) + 3), max_size=20))
def test_text_is_that_of_fairseq(numbers):
    words = DICTIONARY.string(torch.tensor(numbers, dtype=torch.long))
    text = STOCK_MOSES.decode(STOCK_BPE.decode(words))
    assert [codec.decode(numbers) for codec in CODECS] == [text, text]


def test_the_coders_are_those_of_the_bundled_model():
    text = "Don't click the “Save as…” button, e.g. in LibreOffice's toolbar."
    assert Moses(**MOSES).encode(text) == STOCK_MOSES.encode(text)
    assert SubwordNMT(CODES.read_bytes(), "@@").encode(text) == STOCK_BPE.encode(text)


@pytest.mark.parametrize("codec", codecs())
def test_what_a_tokeniser_refuses_is_a_problem(monkeypatch, codec):
    def fail(text):
        raise RuntimeError("no")

    monkeypatch.setattr(codec.coders[0], "encode", fail)
    assert codec.encode("a") == Problem(
        "not tokenised", "the tokeniser or BPE raises RuntimeError: no"
    )
    assert codec.draft(["a"]) == []


@pytest.mark.parametrize("codec", codecs())
def test_words_that_a_bpe_has_seen_do_not_fill_the_memory(monkeypatch, codec):
    monkeypatch.setattr(text_module, "MOST_WORDS", 10)
    cache = codec.coders[1].bpe.cache
    cache.clear()
    for number in range(30):
        before = len(cache)
        codec.encode(f"a{number}")
        assert len(cache) == (1 if before == 11 else before + 1)


def test_pieces_of_bytes_become_text():
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a", "<0xE2>", "<0x82>", "<0xAC>", "b"]
    words = {"symbols": "\n".join(symbols).encode(), "bos": 0, "eos": 2, "unk": 3}
    codec = codec_of(words, words, [])
    codec.coders = [SentencePieceDecoder()]
    assert codec.decode([4, 5, 6, 7, 8, 2]) == "a\u20acb"
    assert codec.decode([4, 5, 6, 2]) == "a\ufffd"
    assert codec.decode([5, 6, 7, 5, 6, 7, 2]) == "\u20ac\u20ac"


class SentencePieceDecoder:
    """Joins pieces as fairseq's ``--bpe sentencepiece`` does."""

    def decode(self, text):
        return text.replace(" ", "").replace("\u2581", " ").strip()


def test_the_target_language_has_coders_of_its_own():
    class Upper:
        def encode(self, text):
            return text.upper()

    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a", "A"]
    words = {"symbols": "\n".join(symbols).encode(), "bos": 0, "eos": 2, "unk": 3}
    codec = TextCodec(Words(**words), Words(**words), [None], [Upper()])
    assert codec.encode("a") == [4, 2]
    assert codec.tokens(codec.source, "a") == [4, 2]
    assert codec.tokens(codec.target, "a") == codec.draft(["a"]) == [5, 2]
