"""Tokenizers of transformers encode as fairseq with the same files."""

import json

import pytest
from fairseq.data import Dictionary

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.published_languages import M2M_100
from fairseq_fastdec.importing.to_huggingface import Dictionaries
from fairseq_fastdec.importing.to_huggingface_tokenizers import tokenizer_files
from fairseq_fastdec.translating.languages import Languages, Pair
from tests.support import huggingface as tiny

TEXT = "Open the file in LibreOffice Writer ©."
PAIR = Pair("en", "fr")


def dictionary(symbols):
    made = Dictionary()
    for symbol in symbols:
        made.add_symbol(symbol)
    return made


def write(directory, dictionaries, files, languages=None):
    """Write the files of a tokenizer, and return their names."""
    given = (dictionaries, files, languages or Languages(), PAIR)
    for name, content in tokenizer_files("bart", *given).items():
        (directory / name).write_bytes(content)
    return sorted(path.name for path in directory.iterdir())


def encoded(directory, text=TEXT):
    """The numbers of a text, by the class that the files name."""
    config = json.loads((directory / "tokenizer_config.json").read_text())
    (tokenizer_class,) = tiny.transformers(config["tokenizer_class"])
    return tokenizer_class.from_pretrained(directory)(text)["input_ids"]


@pytest.fixture
def model(tmp_path):
    return tiny.train_sentencepiece(tmp_path / "m")


def numbers_of(symbols, own):
    return [own.index(symbol) for symbol in symbols]


def pieces_of(model, text=TEXT):
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_file=str(model)).encode(text, out_type=str)


@pytest.fixture
def out(tmp_path):
    directory = tmp_path / "out"
    directory.mkdir()
    return directory


def test_one_pair_with_sentencepiece(out, model):
    source, target = dictionary(tiny.pieces(model)[5:]), dictionary(["a", "b"])
    files = {"sentencepiece.bpe.model": model.read_bytes(), "target.spm": model.read_bytes()}
    assert "target_vocab.json" in write(out, Dictionaries(source, target), files)
    assert encoded(out) == [*numbers_of(pieces_of(model), source), 2]


def test_several_targets(out, model):
    own = dictionary([">>fr<<", ">>de<<", *tiny.pieces(model)[3:]])
    languages = Languages({"fr": ">>fr<<", "de": ">>de<<"}, "{target} {text} </s>")
    files = {"sentencepiece.bpe.model": model.read_bytes()}
    assert "target_vocab.json" not in write(out, Dictionaries(own, own), files, languages)
    expected = [own.index(">>fr<<"), *numbers_of(pieces_of(model), own), 2]
    assert encoded(out, f">>fr<<{TEXT}") == expected


def test_languages_of_m2m_100(out, model):
    tokens = {code: f"__{code}__" for code in M2M_100}
    own = dictionary([*tiny.pieces(model)[3:], *tokens.values(), "madeupword0000"])
    languages = Languages(tokens, "{source} {text} </s>", "</s> {target}")
    files = {"sentencepiece.bpe.model": model.read_bytes()}
    write(out, Dictionaries(own, own), files, languages)
    expected = [own.index("__en__"), *numbers_of(pieces_of(model), own), 2]
    assert encoded(out) == expected


def test_other_languages(out, model, caplog):
    own = dictionary([*tiny.pieces(model)[3:], "__de__", "__en__"])
    languages = Languages({"en": "__en__"}, "{source} {text} </s>", "</s> {target}")
    files = {"sentencepiece.bpe.model": model.read_bytes()}
    assert write(out, Dictionaries(own, own), files, languages) == []
    assert "copy the files of the tokenizer" in caplog.text


def test_bart(tmp_path, out):
    (tmp_path / "in").mkdir()
    tiny.save(tmp_path / "in", "bart")
    imported = huggingface.read(tmp_path / "in")
    # fairseq's dictionaries have the types in another order than the file of the BPE.
    own = dictionary(imported.source[:3:-1])
    write(out, Dictionaries(own, own), imported.files, Languages({}, "<s> {text} </s>"))
    ours = tiny.encoded(imported, "Open the sou", tmp_path)
    assert [own.index(imported.source[number]) for number in ours] == encoded(out, "Open the sou")


@pytest.mark.parametrize(
    "codes", ["#version: 0.2\nt h\nth e</w>\no u\n", "t h 50\nth e</w> 20\no u 3\n"]
)
def test_words_after_moses(out, codes):
    source = dictionary([*"abehnotu", *(f"{letter}@@" for letter in "abehnotu"), "the", "ou@@"])
    target = dictionary(["a"])
    write(out, Dictionaries(source, target), {"bpe.codes": codes.encode()})
    found = encoded(out, "the boat out")
    assert [source[number] for number in found] == "the b@@ o@@ a@@ t ou@@ t </s>".split()


def test_the_first_version_of_codes(out, caplog):
    """In which the end of a word is a symbol of its own."""
    own = dictionary(["the"])
    for codes in ("t h\nth e\n", "#version: 0.1\nt h\n"):
        assert write(out, Dictionaries(own, own), {"bpe.codes": codes.encode()}) == []
        assert "copy the files of the tokenizer" in caplog.text
        caplog.clear()
