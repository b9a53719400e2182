"""Text becomes the tokens that fairseq makes of it, and tokens become its text."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.tasks import FairseqTask
from hypothesis import given

from fairseq_fastdec.decoding import codec as codec_module
from fairseq_fastdec.decoding.codec import (
    Problem,
    TextCodec,
    as_tensors,
    numbers_of,
    words,
)
from tests.support.odd_text import texts

LINES = ["a b c", "", "  c  c c ", "ü a", "a\u00a0b\u2028c"]
SYMBOLS = ("a@@", "b", "▁c")


class Task(FairseqTask):
    """A dictionary, and a tokeniser and a BPE that are objects."""

    source_dictionary = target_dictionary = None

    def __init__(self, tokenizer=None, bpe=None):
        super().__init__(None)
        self.encoders = {"tokenizer": tokenizer, "bpe": bpe}
        self.source_dictionary = self.target_dictionary = dictionary_of(Dictionary)

    def build_tokenizer(self, name):
        return self.encoders[name]

    build_bpe = build_tokenizer


def dictionary_of(kind):
    dictionary = kind()
    for symbol in SYMBOLS:
        dictionary.add_symbol(symbol)
    return dictionary


def codec_of(task):
    cfg = Namespace(tokenizer="tokenizer", bpe="bpe", common_eval=Namespace(post_process=None))
    return TextCodec.of_command_line(cfg, task)


class Letters:
    """Segments words into letters; ``no`` is no word."""

    def encode(self, text):
        if text == "no":
            raise KeyError("no word")
        return " ".join("@@ ".join(word) for word in text.split())

    def decode(self, text):
        return text.replace("@@ ", "")


class Lower:
    def encode(self, text):
        return text.lower()

    def decode(self, text):
        return text.upper()


def test_the_tokeniser_comes_first_and_last():
    codec = codec_of(Task(Lower(), Letters()))
    tokens = codec.encode(["AB", "", "B"])
    assert [line.tolist() for line in tokens] == [[4, 5, 2], [2], [5, 2]]
    assert codec.decode(tokens, {2}) == [("AB", 2), ("", 0), ("B", 1)]
    assert codec.encode([]) == codec.decode([], {2}) == []


def test_what_a_tokeniser_cannot_take():
    first, problem, last = codec_of(Task(None, Letters())).encode(["b", "no", "ab"])
    assert problem == Problem("not tokenised", "the tokeniser or BPE raises KeyError: 'no word'")
    assert (first.tolist(), last.tolist()) == ([5, 2], [4, 5, 2])


def test_tasks_with_ways_of_their_own_are_asked():
    class Own(Task):
        def get_interactive_tokens_and_lengths(self, lines, encode_fn):
            return [torch.tensor([len(encode_fn(line)) for line in lines])], None

    asked = codec_of(Own(None, Letters())).encode(["a b", "no", "a"])
    assert asked[0].tolist() == [3] and asked[1].kind == "not tokenised"
    assert asked[2].tolist() == [1]


@pytest.mark.parametrize("line", [*LINES, "a\tb", "a \x1c b\x85c", "<unk> </s> <pad>"])
def test_words_are_looked_up_as_by_fairseq(corpus, line):
    dictionary = Dictionary.load(str(corpus / "dict.en.txt"))
    expected = dictionary.encode_line(line, add_if_not_exist=False).long()
    (tokens,) = as_tensors([numbers_of(dictionary, line)])
    assert torch.equal(tokens, expected) and tokens.dtype == expected.dtype


class Loud(Dictionary):
    def string(self, *given, **rest):
        return super().string(*given, **rest).upper()


class Quoted(Dictionary):
    def __getitem__(self, number):
        return f"'{super().__getitem__(number)}'"


@pytest.mark.parametrize("post_process", [None, "subword_nmt", "@@ ", "sentencepiece"])
@pytest.mark.parametrize("kind", [Dictionary, Loud, Quoted])
def test_words_are_those_of_the_dictionary(post_process, kind):
    dictionary = dictionary_of(kind)
    numbers = [0, 4, 5, 3, 1, 6, 99, 5, 2]
    assert words(dictionary, numbers, post_process) == dictionary.string(numbers, post_process)


def test_what_generators_leave_out_is_no_text_and_no_token():
    codec = codec_of(Task())
    assert codec.decode([torch.tensor([4, 5, 6, 5, 2])], {2, 5}) == [("a@@ ▁c", 2)]


@pytest.mark.parametrize("language", ["en", "de"])
def test_tokens_are_those_of_fairseqs_encoders(tmp_path, language):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\na b\nw o\nr d</w>\nwo rd</w>\n")

    def encoders():
        tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
        return tokenizer, SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(codes)))

    tokenizer, bpe = encoders()
    task = Task(*encoders())
    dictionary = task.source_dictionary
    for symbol in ("a", "ab", "ab@@", "wo@@", "word", "1@@", ",", "&apos;s", "@@", "</w>", "@-@"):
        dictionary.add_symbol(symbol)
    codec = codec_of(task)

    @given(text=texts)
    def test(text):
        segmented = bpe.encode(tokenizer.encode(text))
        expected = dictionary.encode_line(segmented, add_if_not_exist=False).long()
        (tokens,) = codec.encode([text])
        assert torch.equal(tokens, expected) and tokens.dtype == expected.dtype

    test()


def test_words_that_a_bpe_has_seen_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(codec_module, "MOST_WORDS", 10)
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(codes)))
    codec = codec_of(Task(None, bpe))
    for number in range(1, 30):
        before = len(bpe.bpe.cache)
        codec.encode([f"a{number}"])
        assert len(bpe.bpe.cache) == before + 1
        codec.forget_words()
        assert len(bpe.bpe.cache) == (0 if before == 10 else before + 1)
    codec_of(Task()).forget_words()
