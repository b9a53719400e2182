"""The text of a task becomes the tokens that fairseq makes of it, and tokens become its text."""

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.tasks import FairseqTask
from hypothesis import given

from fairseq_fastdec.checkpoints.codec import TaskCodec, as_tensors
from fairseq_fastdec.translating.results import Problem
from fairseq_fastdec.translating.text import numbers_of
from tests.support.odd_text import texts

LINES = ["a b c", "", "  c  c c ", "ü a", "a\u00a0b\u2028c"]
SYMBOLS = ("a@@", "b", "▁c")


class Task(FairseqTask):
    """A dictionary, and a tokeniser and a BPE that are objects."""

    source_dictionary = target_dictionary = None

    def __init__(self, tokenizer=None, bpe=None):
        super().__init__(None)
        self.encoders = tokenizer, bpe
        self.source_dictionary = self.target_dictionary = dictionary_of(Dictionary)


def dictionary_of(kind):
    dictionary = kind()
    for symbol in SYMBOLS:
        dictionary.add_symbol(symbol)
    return dictionary


def codec_of(task):
    return TaskCodec(task, *task.encoders)


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
    tokens = [codec.encode(text) for text in ("AB", "", "B")]
    assert tokens == [[4, 5, 2], [2], [5, 2]]
    assert list(map(codec.decode, tokens)) == ["AB", "", "B"]


def test_what_a_tokeniser_cannot_take():
    codec = codec_of(Task(None, Letters()))
    first, problem, last = map(codec.encode, ("b", "no", "ab"))
    assert problem == Problem("not tokenised", "the tokeniser or BPE raises KeyError: 'no word'")
    assert (first, last) == ([5, 2], [4, 5, 2])
    assert codec.draft(["b", "no", "ab"]) == [5, 2, 4, 5, 2]


def test_tasks_with_ways_of_their_own_are_asked():
    class Own(Task):
        def get_interactive_tokens_and_lengths(self, lines, encode_fn):
            return [torch.tensor([len(encode_fn(line)) for line in lines])], None

    codec = codec_of(Own(None, Letters()))
    first, problem, last = map(codec.encode, ("a b", "no", "a"))
    assert first == [3] and problem.kind == "not tokenised" and last == [1]
    assert codec.draft(["b"]) == [5, 2]


@pytest.mark.parametrize("line", [*LINES, "a\tb", "a \x1c b\x85c", "<unk> </s> <pad>"])
def test_words_are_looked_up_as_by_fairseq(corpus, line):
    dictionary = Dictionary.load(str(corpus / "dict.en.txt"))
    encode_line = Dictionary.encode_line.__wrapped__
    expected = encode_line(dictionary, line, add_if_not_exist=False).long()
    (tokens,) = as_tensors([numbers_of(dictionary, line.split())])
    assert torch.equal(tokens, expected) and tokens.dtype == expected.dtype


class Loud(Dictionary):
    def string(self, *given, **rest):
        return super().string(*given, **rest).upper()


class Quoted(Dictionary):
    def __getitem__(self, number):
        return f"'{super().__getitem__(number)}'"


@pytest.mark.parametrize("kind", [Dictionary, Loud, Quoted])
def test_words_are_those_of_the_dictionary(kind):
    task = Task()
    task.target_dictionary = dictionary = dictionary_of(kind)
    numbers = [0, 4, 5, 3, 1, 6, 99, 5, 2]
    assert codec_of(task).decode(numbers) == dictionary.string(numbers)


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
        expected = dictionary.encode_line(segmented, add_if_not_exist=False).tolist()
        assert codec.encode(text) == expected

    test()
