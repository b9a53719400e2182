"""Vocabularies of Marian in the order of fairseq."""

import io

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from fairseq_fastdec.importing import building, marian
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.marian_vocabulary import (
    is_usual,
    numbers_of,
    ordered,
    vocabulary,
)
from tests.support import marian_writing as writing
from tests.support import mutations

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def test_the_usual_order(tmp_path):
    path = tmp_path / "vocab.yml"
    writing.write_vocabulary(path, writing.pieces(6))
    words = vocabulary(path, 6)
    assert words.symbols == (*SPECIAL, "▁w0", "▁w1", "▁w2", "▁w3")
    assert words.rows == (-1, -1, 0, 1, 2, 3, 4, 5)
    assert is_usual(words)
    assert [words.rows[number] for number in numbers_of(6)] == [*range(6)]


def test_other_orders_and_symbols_that_dictionaries_cannot_hold():
    pieces = ["<s>", "<pad>", "a", "<unk>", "b c", "", "</s>", "a", "\u2028", "madeupword0000"]
    words = ordered(pieces, 12, eos=6, unk=3)
    assert words.rows == (0, -1, 6, 3, 1, 2, 4, 5, 7, 8, 9, 10, 11)
    assert words.symbols[4:] == (
        "madeupword0001", "a", "madeupword0002", "madeupword0003", "madeupword0004",
        "madeupword0005", "madeupword0000", "madeupword0006", "madeupword0007",
    )  # fmt: skip
    assert not is_usual(words)
    assert len(building.dictionary_of(words.symbols)) == 13


def test_words_that_yaml_would_convert(tmp_path):
    path = tmp_path / "vocab.yml"
    path.write_text("</s>: 0\n<unk>: 1\nyes: 2\n1.0: 3\n~: 4\n2020-01-01: 5\n'1': 6\n")
    assert vocabulary(path, 7).symbols[4:] == ("yes", "1.0", "~", "2020-01-01", "1")


def test_vocabularies_of_another_size(tmp_path):
    path = tmp_path / "vocab.yml"
    writing.write_vocabulary(path, writing.pieces(6))
    assert vocabulary(path, 5).symbols[4:] == ("▁w0", "▁w1", "▁w2")
    assert vocabulary(path, 7).symbols[-1] == "madeupword0000"
    with pytest.raises(UnreadableModel, match="not one of the model's 1 types"):
        vocabulary(path, 1)


@pytest.mark.parametrize(
    "text, why",
    [
        ("</s>: 0\n<unk>: 1\na: 3\n", "have gaps"),
        ("</s>: 0\n<unk>: 1\na: 1\n", "have gaps"),
        ("</s>: 0\n<unk>: 1\na: 1000000000000\n", "'a' has no number"),
        ("</s>: 0\n<unk>: 1\na: -1\n", "'a' has no number"),
        ("</s>: 0\n<unk>: 1\na: [2]\n", "'a' has no number"),
        ("</s>: 0\na: 1\n", "has no <unk>"),
        ("a: 0\nb: 1\n", "has no </s>"),
        ("- </s>\n- <unk>\n", "is not a vocabulary"),
        ("", "is not a vocabulary"),
    ],
)
def test_damaged_vocabularies(text, why, tmp_path):
    path = tmp_path / "vocab.yml"
    path.write_text(text)
    with pytest.raises(UnreadableModel, match=f"vocab.yml: .*{why}"):
        vocabulary(path, 3)


def test_other_formats(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("</s>\n<unk>\n")
    with pytest.raises(UnreadableModel, match="vocab.txt: has a format that is not supported"):
        vocabulary(path, 2)


def trained(**options):
    """A model of SentencePiece, by default with Marian's special pieces."""
    model = io.BytesIO()
    sentences = [f"a small test of pieces {number} and words" for number in range(50)]
    usual = {"bos_id": -1, "eos_id": 0, "unk_id": 1, "pad_id": -1, "vocab_size": 40}
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, minloglevel=2,
        hard_vocab_limit=False, **{**usual, **options},
    )  # fmt: skip
    return model.getvalue()


def test_pieces_of_sentencepiece(tmp_path):
    path = tmp_path / "vocab.enpt.spm"
    path.write_bytes(trained())
    pieces = SentencePieceProcessor(model_file=str(path))
    words = vocabulary(path, len(pieces))
    assert is_usual(words)
    assert list(words.symbols[4:]) == [pieces.id_to_piece(n) for n in range(2, len(pieces))]
    with pytest.raises(UnreadableModel, match="pieces, but the model 7"):
        vocabulary(path, 7)


def test_special_pieces_of_sentencepiece(tmp_path):
    path = tmp_path / "vocab.spm"
    path.write_bytes(trained(bos_id=1, eos_id=2, unk_id=0, pad_id=3))
    words = vocabulary(path, 40)
    assert words.rows[:5] == (1, -1, 2, 0, 3)
    assert words.symbols[4] == "madeupword0000"


def test_damaged_models_of_sentencepiece(tmp_path):
    path = tmp_path / "vocab.spm"
    path.write_bytes(b"no model")
    with pytest.raises(UnreadableModel, match="vocab.spm: is damaged"):
        vocabulary(path, 7)
    path.write_bytes(trained(eos_id=-1))
    with pytest.raises(UnreadableModel, match="vocab.spm: has no </s>"):
        vocabulary(path, 40)


@pytest.mark.parametrize("name", ["model.vocab.yml", "decoder.yml", "lex.s2t.bin"])
def test_damaged_files(name, tmp_path):
    folder = writing.write_directory(tmp_path, writing.random_tensors())
    (folder / "decoder.yml").write_text(
        "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n  - model.vocab.yml\n"
        "  - model.vocab.yml\nshortlist:\n  - lex.s2t.bin\n  - false\nbeam-size: 6\n"
        "normalize: 1.0\nword-penalty: 0\nmax-length-factor: 2.5\n"
    )
    writing.write_shortlist(folder / "lex.s2t.bin", 3, [[n, (7 * n) % 20] for n in range(20)])
    assert mutations.check(folder / name, lambda: marian.read(folder)) > mutations.COUNT / 10
