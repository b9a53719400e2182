"""The vocabularies of FSMT are those of FSMTTokenizer."""

import pytest

from fairseq_fastdec.importing import huggingface
from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.huggingface_fsmt import of_fairseq, of_fsmt, read_fsmt
from fairseq_fastdec.importing.imported import UnreadableModel
from tests.support import huggingface as tiny


def test_fairseq_encodes_as_the_tokenizer(tmp_path):
    (tokenizer_class,) = tiny.transformers("FSMTTokenizer")
    tiny.save(tmp_path, "fsmt")
    imported = huggingface.read(tmp_path)
    assert (imported.source_lang, imported.target_lang) == ("en", "de")
    assert imported.source[-4:] == ["th@@", "the", "ou@@", "in"]
    assert (imported.bpe, list(imported.files)) == ("subword_nmt", ["bpe.codes"])
    tokenizer = tokenizer_class.from_pretrained(tmp_path)
    text = "the boat in thou bath zoo"
    assert tiny.encoded(imported, text, tmp_path) == tokenizer(text)["input_ids"]


@pytest.mark.parametrize("symbol, ours", [("a", "a@@"), ("a</w>", "a"), ("</s>", "</s>")])
def test_symbols(symbol, ours):
    assert of_fairseq(symbol) == ours
    assert of_fsmt(ours) == symbol


@pytest.mark.parametrize("langs", ["en", ["en"], ["en", 3], ["en", ""], 5])
def test_damaged_languages(tmp_path, langs):
    config = {**tiny.KINDS["fsmt"].write(tmp_path), "langs": langs}
    with pytest.raises(UnreadableModel, match="a list of two languages"):
        read_fsmt(tmp_path, Fields(tmp_path, config))


@pytest.mark.parametrize("content", [b"t\n", b"\xff \xff\n"])
def test_damaged_merges(tmp_path, content):
    config = tiny.KINDS["fsmt"].write(tmp_path)
    (tmp_path / "merges.txt").write_bytes(content)
    with pytest.raises(UnreadableModel, match=r"merges\.txt"):
        read_fsmt(tmp_path, Fields(tmp_path, config))
