"""The vocabulary of BART is that of BartTokenizer."""

import json

import pytest

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.huggingface_bart import read_bart
from fairseq_fastdec.importing.imported import UnreadableModel
from tests.support import huggingface as tiny

TEXT = "Open the file, thé «Writer»\tsou  s!"


def written(directory, **config):
    """Write the files of a tokenizer, and read its vocabulary."""
    values = {**tiny.KINDS["bart"].write(directory), **config}
    return read_bart(directory, Fields(directory / "config.json", values))


def test_fairseq_encodes_as_the_tokenizer(tmp_path):
    (tokenizer_class,) = tiny.transformers("BartTokenizer")
    tiny.save(tmp_path, "bart")
    tokenizer = tokenizer_class.from_pretrained(tmp_path)
    imported = huggingface.read(tmp_path)
    assert (imported.source_format, imported.target_format) == ("<s> {text} </s>", "</s> <s>")
    assert tiny.encoded(imported, TEXT, tmp_path) == tokenizer(TEXT)["input_ids"]


def test_fairseq_decodes_all_types(tmp_path):
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    vocabulary = written(tmp_path, vocab_size=270)
    assert vocabulary.source[:6] == [*tiny.SPECIAL, "4", "5"]
    assert vocabulary.source[-4:] == ["<mask>", "267", "268", "269"]
    for name, content in vocabulary.files.items():
        (tmp_path / name).write_bytes(content)
    encoder = get_encoder(str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe"))
    numbers = encoder.encode("Über the s")
    assert encoder.decode(numbers) == "Über the s"
    assert "madeup" in encoder.decode([269])


def test_a_mask_beyond_the_size(tmp_path):
    """As in bart-large-cnn."""
    size = len(written(tmp_path).source)
    vocabulary = written(tmp_path, vocab_size=size - 1)
    assert len(vocabulary.source) == size - 1
    assert "<mask>" not in vocabulary.source


def test_merges_without_a_first_line_and_a_last_line_break(tmp_path):
    expected = written(tmp_path).files["vocab.bpe"]
    path = tmp_path / "merges.txt"
    path.write_text(path.read_text(encoding="utf-8").partition("\n")[2].rstrip(), encoding="utf-8")
    config = Fields(tmp_path, {"vocab_size": 1000})
    assert read_bart(tmp_path, config).files["vocab.bpe"] == expected


@pytest.mark.parametrize("content", [b"#version: 0.2\nt h e\n", b"#version: 0.2\nth\n", b"\xff\n"])
def test_damaged_merges(tmp_path, content):
    written(tmp_path)
    (tmp_path / "merges.txt").write_bytes(content)
    with pytest.raises(UnreadableModel, match=r"merges\.txt"):
        read_bart(tmp_path, Fields(tmp_path, {"vocab_size": 1000}))


def test_special_symbols_in_another_order(tmp_path):
    written(tmp_path)
    path = tmp_path / "vocab.json"
    vocab = {**json.loads(path.read_text()), "<s>": 1, "<pad>": 0}
    tiny.write_json(path, vocab)
    with pytest.raises(UnreadableModel, match="does not begin with <s>"):
        read_bart(tmp_path, Fields(tmp_path, {"vocab_size": 1000}))


def test_outputs_without_a_forced_first_token(tmp_path):
    tiny.save(tmp_path, "bart", forced_bos_token_id=None, decoder_start_token_id=0)
    assert huggingface.read(tmp_path).target_format == "<s>"
