"""The files of tokenizers that transformers 5 no longer saves, from its ``tokenizer.json``."""

import base64
import binascii
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .building import SPECIAL
from .imported import UnreadableModel
from .tensors import read_json

TOKENIZER = "tokenizer.json"
# The numbers of SentencePiece's protocol buffers.
UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL = 1, 2, 3


class ByteLevel(NamedTuple):
    """The byte-level BPE of GPT-2: the number of each symbol, and the lines of ``merges.txt``."""

    vocab: dict[str, Any]
    merges: list[str]


def read_byte_level(path: Path) -> ByteLevel:
    """Read the BPE of BART.

    Raises:
        FileNotFoundError: if the file is missing.
        UnreadableModel: if it is damaged or has another kind of tokenizer.
    """
    content = read_json(path)
    model = _model(path, content, "BPE")
    vocab = _of_kind(path, model, "vocab", dict)
    added = _of_kind(path, content, "added_tokens", list)
    for entry in added:
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            vocab.setdefault(entry["content"], entry.get("id"))
    return ByteLevel(vocab, list(_merges(path, model)))


def sentencepiece_of(path: Path) -> bytes:
    """A SentencePiece model that segments text in the same way.

    Raises:
        FileNotFoundError: if the file is missing.
        UnreadableModel: if it is damaged or has another kind of tokenizer.
    """
    content = read_json(path)
    is_unigram = _kind(path, content) == "Unigram"
    model = _model(path, content, "Unigram" if is_unigram else "BPE")
    pieces = _scored(path, model) if is_unigram else _ranked(path, model)
    entries_of_added = _of_kind(path, content, "added_tokens", list)
    contents = [entry.get("content") for entry in entries_of_added if isinstance(entry, dict)]
    added = {own for own in contents if isinstance(own, str)}
    own = [(piece, score) for piece, score in pieces if piece not in added | {*SPECIAL, "<mask>"}]
    entries = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    entries += [(piece, score, NORMAL) for piece, score in own]
    trainer = _number(3, UNIGRAM if is_unigram else BPE) + _number(4, len(entries))
    return b"".join(
        [
            *(_bytes(1, _piece(*entry)) for entry in entries),
            _bytes(2, trainer),
            _bytes(3, _bytes(2, _character_map(path, content))),
        ]
    )


def _kind(path: Path, content: dict[str, Any]) -> str:
    kind = _of_kind(path, content, "model", dict).get("type")
    return kind if isinstance(kind, str) else ""


def _model(path: Path, content: dict[str, Any], kind: str) -> dict[str, Any]:
    model = _of_kind(path, content, "model", dict)
    if model.get("type") != kind:
        raise UnreadableModel(f"{path}: the model is {str(model.get('type'))[:50]!r}, not {kind}")
    return model


def _of_kind(path: Path, content: dict[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if not isinstance(value, kind):
        raise UnreadableModel(f"{path}: {name} is missing or damaged")
    return value


def _merges(path: Path, model: dict[str, Any]) -> Iterator[str]:
    """Merges as text; newer files have pairs."""
    for merge in _of_kind(path, model, "merges", list):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2:
            raise UnreadableModel(f"{path}: merges has an entry that is not a pair")
        yield f"{parts[0]} {parts[1]}"


def _scored(path: Path, model: dict[str, Any]) -> list[tuple[str, float]]:
    """The pieces of a unigram model with their scores."""
    entries = _of_kind(path, model, "vocab", list)
    for entry in entries:
        is_pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
        if not is_pair or not isinstance(entry[1], (int, float)) or not abs(entry[1]) < 1e9:
            raise UnreadableModel(f"{path}: vocab has an entry that is not a piece and its score")
    return [(piece, float(score)) for piece, score in entries]


def _ranked(path: Path, model: dict[str, Any]) -> list[tuple[str, float]]:
    """The pieces of a BPE model. SentencePiece merges those with the least number first."""
    vocab = _of_kind(path, model, "vocab", dict)
    if not all(isinstance(number, int) for number in vocab.values()):
        raise UnreadableModel(f"{path}: vocab has a piece without a number")
    pieces = sorted(vocab, key=lambda piece: vocab[piece])
    return [(piece, float(len(SPECIAL) - rank)) for rank, piece in enumerate(pieces)]


def _character_map(path: Path, content: dict[str, Any]) -> bytes:
    """The compiled rules that normalise characters; empty if there are none."""
    normalizer = content.get("normalizer") or {}
    steps = normalizer.get("normalizers", [normalizer]) if isinstance(normalizer, dict) else []
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict) and step.get("type") == "Precompiled":
            try:
                return base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
            except (TypeError, ValueError, binascii.Error) as error:
                raise UnreadableModel(f"{path}: precompiled_charsmap is damaged") from error
    return b""


def _piece(piece: str, score: float, kind: int) -> bytes:
    text = piece.encode("utf-8", "surrogatepass")
    return _bytes(1, text) + b"\x15" + struct.pack("<f", score) + _number(3, kind)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
