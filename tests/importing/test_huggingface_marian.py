"""The vocabularies of Marian are those of MarianTokenizer."""

import json

import pytest

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.huggingface_marian import read_marian
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.vocabularies import Order
from tests.support import huggingface as tiny

TEXT = "Open the file in LibreOffice Writer ©."


def written(directory, kind="marian", **tokenizer):
    """Write the files of a tokenizer, and read its vocabulary."""
    directory.mkdir(exist_ok=True)
    config = tiny.KINDS[kind].write(directory)
    if tokenizer:
        tiny.write_json(directory / "tokenizer_config.json", tokenizer)
    return read_marian(directory, Fields(directory / "config.json", config))


@pytest.mark.parametrize("kind", ["marian", "separate_marian"])
def test_numbers_are_those_of_the_tokenizer(tmp_path, kind):
    (tokenizer_class,) = tiny.transformers("MarianTokenizer")
    (tmp_path / "model").mkdir()
    tiny.save(tmp_path / "model", kind)
    vocabulary = written(tmp_path / "model", kind)
    tokenizer = tokenizer_class.from_pretrained(tmp_path / "model")
    assert tokenizer.get_src_vocab() == {s: n for n, s in enumerate(vocabulary.source)}
    targets = getattr(tokenizer, "target_encoder", tokenizer.encoder)
    assert targets == {s: n for n, s in enumerate(vocabulary.target)}
    imported = huggingface.read(tmp_path / "model")
    rows = Order.of(vocabulary.source).rows
    ours = [rows[number] for number in tiny.encoded(imported, TEXT, tmp_path)]
    assert ours == tokenizer(TEXT)["input_ids"]


def test_source_and_target_can_have_their_own_sentencepiece(tmp_path):
    vocabulary = written(tmp_path / "model")
    assert vocabulary.files == {
        "sentencepiece.bpe.model": (tmp_path / "model" / "source.spm").read_bytes(),
        "target.spm": (tmp_path / "model" / "target.spm").read_bytes(),
    }


def test_one_sentencepiece_for_both_is_kept_once(tmp_path):
    written(tmp_path / "model")
    content = (tmp_path / "model" / "source.spm").read_bytes()
    (tmp_path / "model" / "target.spm").write_bytes(content)
    config = Fields(tmp_path, {"vocab_size": 1000})
    assert list(read_marian(tmp_path / "model", config).files) == ["sentencepiece.bpe.model"]


@pytest.mark.parametrize(
    "name, pair",
    [
        ("opus-mt-en-de", ("en", "de")),
        ("opus-mt-tc-big-en-pt", ("en", "pt")),
        ("opus-mt-tc-bible-big-deu_eng_fra-aav", ("deu_eng_fra", "aav")),
        ("models--Helsinki-NLP--opus-mt-en-ROMANCE", ("en", "ROMANCE")),
        ("other", ("source", "target")),
    ],
)
def test_the_pair_is_in_the_name_of_the_directory(tmp_path, name, pair):
    vocabulary = written(tmp_path / name)
    assert (vocabulary.source_lang, vocabulary.target_lang) == pair
    (tmp_path / name / "snapshots").mkdir()
    vocabulary = written(tmp_path / name / "snapshots")
    assert (vocabulary.source_lang, vocabulary.target_lang) == pair


def test_the_tokenizer_names_the_pair(tmp_path):
    vocabulary = written(tmp_path / "opus-mt-en-de", source_lang="eng", target_lang="deu")
    assert (vocabulary.source_lang, vocabulary.target_lang) == ("eng", "deu")


def test_several_target_languages(tmp_path):
    (tmp_path / "model").mkdir()
    (tokenizer_class,) = tiny.transformers("MarianTokenizer")
    model = tiny.save(tmp_path / "model", "marian")
    path = tmp_path / "model" / "vocab.json"
    renamed = {"s": ">>fra<<", "▁": ">>por_BR<<"}
    vocab = json.loads(path.read_text())
    tiny.write_json(path, {renamed.get(word, word): number for word, number in vocab.items()})
    names = {"source_lang": "en", "target_lang": "ROMANCE"}
    tiny.write_json(tmp_path / "model" / "tokenizer_config.json", names)
    imported = huggingface.read(tmp_path / "model")
    assert imported.languages == {"fra": ">>fra<<", "por_BR": ">>por_BR<<"}
    assert (imported.source_format, imported.target_format) == ("{target} {text} </s>", "</s>")
    assert (imported.source_lang, imported.target_lang) == ("en", "fra")
    tokenizer = tokenizer_class.from_pretrained(tmp_path / "model")
    rows = Order.of(list(vocab)).rows
    ours = [rows[number] for number in tiny.encoded(imported, "Open it", tmp_path)]
    assert ours == tokenizer(">>fra<< Open it")["input_ids"]
    assert model.config.vocab_size == len(imported.source) - 1


def test_a_damaged_sentencepiece_model(tmp_path):
    written(tmp_path / "model")
    path = tmp_path / "model" / "target.spm"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UnreadableModel, match=r"target\.spm: is damaged"):
        read_marian(tmp_path / "model", Fields(tmp_path, {"vocab_size": 1000}))


@pytest.mark.parametrize("number", [-1, 1.5, "3", None, True, 10**6, 5])
def test_numbers_of_symbols(tmp_path, number):
    """The last one is another symbol's."""
    written(tmp_path / "model")
    tiny.changed(tmp_path / "model" / "vocab.json", x=0)
    path = tmp_path / "model" / "vocab.json"
    vocab = {**json.loads(path.read_text()), "new": number}
    del vocab["x"]
    tiny.write_json(path, vocab)
    with pytest.raises(UnreadableModel, match=r"vocab\.json") as error:
        read_marian(tmp_path / "model", Fields(tmp_path, {"vocab_size": 1000}))
    assert "new" in str(error.value)
