"""Files of tokenizers that transformers 5 no longer saves, from its tokenizer.json."""

import json
import random

import pytest

from fairseq_fastdec.importing import huggingface, published_languages
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.tokenizer_json import read_byte_level, sentencepiece_of
from fairseq_fastdec.importing.vocabularies import pieces_of
from tests.support import huggingface as tiny
from tests.support import skips

# Without spaces at the end, which SentencePiece removes, and this tokenizer turns into a piece.
TEXTS = [
    "Open the file in LibreOffice Writer ©.",
    "  two  spaces\tand ﬁ ligatures Ａ ½",
    "e\u0301 日本語 the\u00a0file",
    "",
]
CLASSES = {
    "nllb": ("NllbTokenizer", published_languages.NLLB_200),
    "mbart": ("MBartTokenizer", None),
    "mbart_50": ("MBart50Tokenizer", None),
    "bart": ("BartTokenizer", None),
}


def save(directory, kind):
    """Save a model and its tokenizer with transformers 5, and return the old and new directory."""
    skips.needs("google.protobuf")
    name, languages = CLASSES[kind]
    (tokenizer_class,) = tiny.transformers(name)
    old, new = directory / "old", directory / "new"
    old.mkdir()
    model = tiny.save(old, kind)
    options = {"extra_special_tokens": languages} if languages else {}
    tokenizer = tokenizer_class.from_pretrained(old, **options)
    tokenizer.save_pretrained(new)
    model.save_pretrained(new)
    assert not (new / "sentencepiece.bpe.model").exists()
    assert not (new / "vocab.json").exists()
    return old, new, tokenizer


@pytest.mark.parametrize("kind", CLASSES)
def test_text_is_segmented_as_by_the_tokenizer(tmp_path, kind):
    old, new, tokenizer = save(tmp_path, kind)
    imported = huggingface.read(new)
    known = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    if kind != "bart":
        assert imported.source[: len(known)] == known
    # The MBartTokenizer of transformers 5 leaves out the normalisation of characters.
    texts = TEXTS if kind != "mbart" else TEXTS[:1]
    for text in texts:
        assert tiny.encoded(imported, text, tmp_path) == tokenizer(text)["input_ids"], text


@pytest.mark.parametrize("kind", ["nllb", "mbart", "mbart_50"])
def test_pieces_are_those_of_the_original(tmp_path, kind):
    old, new, _ = save(tmp_path, kind)
    (tmp_path / "again").write_bytes(sentencepiece_of(new / "tokenizer.json"))
    again, first = tmp_path / "again", old / "sentencepiece.bpe.model"
    pieces = pieces_of(again, again.read_bytes())
    assert pieces == pieces_of(first, first.read_bytes())


def test_files_of_bart_are_those_of_the_original(tmp_path):
    old, new, _ = save(tmp_path, "bart")
    assert huggingface.read(old).files == huggingface.read(new).files


def test_merges_can_be_text(tmp_path):
    _, new, _ = save(tmp_path, "bart")
    path = new / "tokenizer.json"
    found = read_byte_level(path)
    content = json.loads(path.read_text())
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    path.write_text(json.dumps(content))
    assert read_byte_level(path) == found


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"model": []},
        {"model": {"type": ["BPE"]}},
        {"model": {"type": "WordPiece"}, "added_tokens": []},
        {"model": {"type": "Unigram", "vocab": [["a"]]}, "added_tokens": []},
        {"model": {"type": "Unigram", "vocab": [["a", "b"]]}, "added_tokens": []},
        {"model": {"type": "BPE", "vocab": {"a": "b"}}, "added_tokens": []},
        {"model": {"type": "BPE", "vocab": {"a": 1}}, "added_tokens": {}},
        {"model": {"type": "BPE", "vocab": {"a": []}}, "added_tokens": [{"content": []}, 3]},
    ],
)
def test_damaged_files(tmp_path, content):
    tiny.write_json(tmp_path / "tokenizer.json", content)
    for read in (sentencepiece_of, read_byte_level):
        with pytest.raises(UnreadableModel, match=r"tokenizer\.json"):
            read(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("kind", ["nllb", "mbart_50", "bart"])
def test_damaged_values(tmp_path, kind):
    _, new, _ = save(tmp_path, kind)
    path, generator, refused = new / "tokenizer.json", random.Random(2), 0
    content = path.read_text()
    odd = ["null", "-1", "[]", "{}", '""', "99999999999999999999", "1e300", '"\\ud800"']
    for _ in range(60):
        place = generator.randrange(len(content))
        colon, end = content.rfind(":", 0, place), content.find(",", place)
        if colon < 0 or end < 0:
            continue
        path.write_text(content[: colon + 1] + generator.choice(odd) + content[end:])
        try:
            huggingface.read(new)
        except UnreadableModel as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 10
