"""Vocabularies by number, and fairseq's order of them."""

from pathlib import Path

import pytest

from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.vocabularies import (
    Order,
    added_types,
    numbered,
    pieces_of,
    read_vocabulary,
    special_tokens,
)
from tests.support import huggingface as tiny

PATH = Path("vocab.json")


def test_types_without_a_symbol():
    symbols = {0: "a", 2: "madeupword0000", 4: "b"}
    expected = ["a", "madeupword0001", "madeupword0000", "madeupword0002", "b", "madeupword0003"]
    assert numbered(PATH, symbols, 6) == expected


@pytest.mark.parametrize("symbol", ["", "a b", "a\n", "\r"])
def test_symbols_that_a_dictionary_cannot_hold(symbol):
    assert numbered(PATH, {0: symbol, 1: "a"}, 2) == ["madeupword0000", "a"]


def test_a_mask_beyond_the_size():
    assert numbered(PATH, {0: "a", 1: "<mask>"}, 1) == ["a"]


@pytest.mark.parametrize("symbols", [{0: "a", 2: "b"}, {0: "a", 1: "a"}])
def test_symbols_beyond_the_size_or_repeated(symbols):
    with pytest.raises(UnreadableModel, match=r"vocab\.json: '[ab]' is .* the model has 2 types"):
        numbered(PATH, symbols, 2)


def test_the_order_of_fairseq():
    order = Order.of(["</s>", "a", "<unk>", "b", "<pad>"])
    assert order.symbols == ("<s>", "<pad>", "</s>", "<unk>", "a", "b")
    assert order.rows == (-1, 4, 0, 2, 1, 3)
    assert not order.is_complete
    assert Order.of([*tiny.SPECIAL, "a"]) == Order((*tiny.SPECIAL, "a"), (0, 1, 2, 3, 4))


@pytest.mark.parametrize("content", [{"a": 0, "b": 0}, {"a": -1}, {"a": "0"}, {"a": None}])
def test_damaged_vocabularies(tmp_path, content):
    tiny.write_json(tmp_path / "vocab.json", content)
    with pytest.raises(UnreadableModel, match=r"vocab\.json"):
        read_vocabulary(tmp_path / "vocab.json")


@pytest.mark.parametrize(
    "name, content",
    [
        ("tokenizer.json", {"added_tokens": 3}),
        ("tokenizer.json", {"added_tokens": [3]}),
        ("tokenizer.json", {"added_tokens": [{"content": 3, "id": 3}]}),
        ("tokenizer.json", {"added_tokens": [{"content": "a"}]}),
        ("tokenizer_config.json", {"added_tokens_decoder": []}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "a"}}}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"3": "a"}}),
        ("added_tokens.json", {"a": "3"}),
    ],
)
def test_damaged_lists_of_added_types(tmp_path, name, content):
    tiny.write_json(tmp_path / name, content)
    with pytest.raises(UnreadableModel, match=name.replace(".", r"\.")):
        added_types(tmp_path)


def test_added_types(tmp_path):
    assert added_types(tmp_path) == {}
    tiny.write_json(tmp_path / "tokenizer.json", {"added_tokens": [{"id": 4, "content": "a"}]})
    decoder = {"5": {"content": "b"}}
    tiny.write_json(tmp_path / "tokenizer_config.json", {"added_tokens_decoder": decoder})
    tiny.write_json(tmp_path / "added_tokens.json", {"c": 6})
    assert added_types(tmp_path) == {4: "a", 5: "b", 6: "c"}


def test_special_tokens(tmp_path):
    assert special_tokens(tmp_path) == []
    content = {"additional_special_tokens": ["a", {"content": "b"}, 3], "unk_token": "c"}
    tiny.write_json(tmp_path / "special_tokens_map.json", content)
    assert special_tokens(tmp_path) == ["a", "b"]


def test_a_damaged_sentencepiece_model(tmp_path):
    path = tiny.train_sentencepiece(tmp_path / "m")
    assert len(pieces_of(path, path.read_bytes())) == 120
    for content in (b"", path.read_bytes()[:500], b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(UnreadableModel, match=r"m\.model: is (damaged|empty)") as error:
            pieces_of(path, path.read_bytes())
        assert "\n" not in str(error.value)
