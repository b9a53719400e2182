"""A bundle's text becomes the tokens, and its tokens the text, that fairseq's tools give."""

from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.data import Dictionary, encoders
from hypothesis import given
from hypothesis import strategies as st

from examples.common.en_de import MODEL
from fairseq_fastdec.translating.bundle_codec import BundleCodec, Moses, SubwordNMT
from fairseq_fastdec.translating.results import Problem
from tests.support.odd_text import texts

CODES = MODEL / "bpe.codes"
DICTIONARY = Dictionary.load(str(MODEL / "dict.de.txt"))
NAMES = Namespace(
    tokenizer="moses", bpe="subword_nmt", bpe_codes=str(CODES), source_lang="en", target_lang="de"
)
STOCK_MOSES, STOCK_BPE = encoders.build_tokenizer(NAMES), encoders.build_bpe(NAMES)
WORDS = {
    "symbols": "\n".join(DICTIONARY.symbols).encode(),
    "bos": DICTIONARY.bos(),
    "eos": DICTIONARY.eos(),
    "unk": DICTIONARY.unk(),
}
MOSES = {"source_lang": "en", "target_lang": "de", "dash_splits": True, "escape": True}
CODERS = [("Moses", MOSES), ("SubwordNMT", {"codes": CODES.read_bytes(), "separator": "@@"})]
CODEC = BundleCodec(WORDS, WORDS, CODERS)


@given(text=texts)
def test_tokens_are_those_of_fairseq(text):
    segmented = STOCK_BPE.encode(STOCK_MOSES.encode(text))
    line = DICTIONARY.encode_line(segmented, add_if_not_exist=False).tolist()
    assert CODEC.encode(text) == line


@given(numbers=st.lists(st.integers(0, len(DICTIONARY) + 3), max_size=20))
def test_text_is_that_of_fairseq(numbers):
    import torch

    words = DICTIONARY.string(torch.tensor(numbers, dtype=torch.long))
    assert CODEC.decode(numbers) == STOCK_MOSES.decode(STOCK_BPE.decode(words))


def test_the_coders_are_those_of_the_bundled_model():
    text = "Don't click the “Save as…” button, e.g. in LibreOffice's toolbar."
    assert Moses(**MOSES).encode(text) == STOCK_MOSES.encode(text)
    assert SubwordNMT(CODES.read_bytes(), "@@").encode(text) == STOCK_BPE.encode(text)


def test_what_a_tokeniser_refuses_is_a_problem(monkeypatch):
    def fail(text):
        raise RuntimeError("no")

    monkeypatch.setattr(CODEC._coders[0], "encode", fail)
    assert CODEC.encode("a") == Problem(
        "not tokenised", "the tokeniser or BPE raises RuntimeError: no"
    )


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(ModuleNotFoundError, match="pip install sentencepiece"):
        BundleCodec(WORDS, WORDS, [("SentencePiece", {"model": b""})])
    assert Path(CODES).exists()
