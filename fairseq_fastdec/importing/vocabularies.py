"""Vocabularies by the numbers that the model's types have, and those of Hugging Face."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor

from ..data.model_files import SENTENCEPIECE
from .building import SPECIAL, made_up_words
from .fields import Fields
from .imported import UnreadableModel
from .tensors import damaged, read_json
from .tokenizer_json import TOKENIZER, sentencepiece_of

# The names of classes that read any tokenizer.json.
ANY_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass
class NumberedVocabulary:
    """The types of a model and its languages.

    Attributes:
        source, target: the symbols by number, as in the rows of the model's embeddings.
        source_format, languages, bpe, files: see :class:`~.imported.Imported`.
        source_lang, target_lang: the names of the pair, or the default languages if the directory
            names them.
        starts_with_language: whether the decoder's first input is the target language, as in
            mBART-25.
    """

    source: list[str]
    target: list[str]
    files: dict[str, bytes]
    languages: dict[str, str] = field(default_factory=dict)
    source_format: str = "{text} </s>"
    source_lang: Optional[str] = None
    target_lang: Optional[str] = None
    bpe: str = "sentencepiece"
    starts_with_language: bool = False

    @property
    def is_of_several_targets(self) -> bool:
        """Whether only targets have languages, which the source names, as in Opus-MT."""
        return bool(self.languages) and "{target}" in self.source_format

    @property
    def forces_language(self) -> bool:
        """Whether the first token of outputs is their language."""
        return (
            bool(self.languages)
            and not self.starts_with_language
            and not self.is_of_several_targets
        )


@dataclass(frozen=True)
class Order:
    """The order of types in fairseq, where the special symbols come first.

    Attributes:
        symbols: all symbols in fairseq's order.
        rows: their numbers in the model; -1 for special symbols that the model lacks.
    """

    symbols: tuple[str, ...]
    rows: tuple[int, ...]

    @classmethod
    def of(cls, symbols: list[str]) -> "Order":
        """fairseq's order of the symbols of a model."""
        rows = {symbol: row for row, symbol in enumerate(symbols)}
        special = [rows.pop(symbol, -1) for symbol in SPECIAL]
        return cls((*SPECIAL, *rows), (*special, *rows.values()))

    @property
    def is_complete(self) -> bool:
        """Whether the model has all special symbols."""
        return -1 not in self.rows


def reordered(path: Path, rows: Tensor, order: Order, missing: float = 0.0) -> Tensor:
    """The rows ``[V, ...]`` of types in another order.

    Args:
        path: where they are from.
        missing: the value for types without a row.

    Raises:
        UnreadableModel: if the number of rows is not the number of types.
    """
    n_types = sum(row >= 0 for row in order.rows)
    if rows.dim() == 0 or len(rows) != n_types:
        raise UnreadableModel(
            f"{path}: an embedding of shape {tuple(rows.shape)} for {n_types} types"
        )
    numbers = torch.tensor(order.rows)
    if torch.equal(numbers, torch.arange(len(rows))):
        return rows
    found = rows[numbers.clamp(min=0)]
    found[numbers < 0] = missing
    return found


def numbered(path: Path, symbols: dict[int, str], size: int) -> list[str]:
    """The symbols by number; types without one are named ``madeupword0000`` and so on.

    So are those whose symbols a dictionary's file cannot hold, since they are empty or have spaces
    or line breaks.

    Args:
        path: the file that they are from.
        size: the number of types of the model. ``<mask>``, which is in no text, can be beyond it.

    Raises:
        UnreadableModel: if a symbol is repeated or beyond the size.
    """
    names: dict[str, int] = {}
    for number, symbol in sorted(symbols.items()):
        if number >= size and symbol == "<mask>":
            continue
        if number >= size or symbol in names:
            why = f"is repeated as number {number}" if symbol in names else f"is number {number}"
            raise UnreadableModel(f"{path}: {symbol!r} {why}, and the model has {size} types")
        if symbol and not set(symbol) & set(" \n\r"):
            names[symbol] = number
    free = made_up_words(names)
    known = {number: symbol for symbol, number in names.items()}
    return [known[number] if number in known else next(free) for number in range(size)]


def sizes(config: Fields, default: int) -> tuple[int, int]:
    """The numbers of types of source and target.

    Args:
        default: for a config without them.

    Raises:
        UnreadableModel: for values that are no sizes.
    """
    source = config.count("src_vocab_size", config.count("vocab_size", default))
    return source, config.count("tgt_vocab_size", config.count("decoder_vocab_size", source))


def read_vocabulary(path: Path) -> dict[int, str]:
    """Read a ``vocab.json``, which has the number of each symbol.

    Raises:
        FileNotFoundError, UnreadableModel: if the file is missing or damaged.
    """
    return by_number(path, read_json(path))


def by_number(path: Path, numbers: Mapping[Any, Any]) -> dict[int, str]:
    """The symbols of a vocabulary by number.

    Args:
        path: the file that they are from.

    Raises:
        UnreadableModel: for what is no number or no symbol, and numbers of two symbols.
    """
    return _by_number(path, numbers.items())


def _by_number(path: Path, symbols: Iterable[tuple[Any, Any]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for symbol, number in symbols:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise UnreadableModel(f"{path}: the number of {symbol!r} is {str(number)[:50]!r}")
        if not isinstance(symbol, str) or found.setdefault(number, symbol) != symbol:
            raise UnreadableModel(f"{path}: {symbol!r} and another symbol have number {number}")
    return found


def sentencepiece_model(path: Path, content: bytes) -> Any:
    """SentencePiece's ``SentencePieceProcessor`` of a file.

    Args:
        path: the file with this content.

    Raises:
        UnreadableModel: if it is damaged.
    """
    from sentencepiece import SentencePieceProcessor

    if not content:
        raise UnreadableModel(f"{path}: is empty")
    try:
        return SentencePieceProcessor(model_proto=content)
    except Exception as error:
        raise damaged(path, error) from error


def pieces_of(path: Path, content: bytes) -> list[str]:
    """The pieces of a SentencePiece model, by SentencePiece's numbers.

    Raises:
        UnreadableModel: see :func:`sentencepiece_model`.
    """
    model = sentencepiece_model(path, content)
    return [model.id_to_piece(number) for number in range(len(model))]


def read_sentencepiece(directory: Path) -> bytes:
    """The SentencePiece model of a directory; transformers 5 saves only ``tokenizer.json``.

    Raises:
        FileNotFoundError, UnreadableModel: if the file is missing or damaged.
    """
    path, whole = directory / SENTENCEPIECE, directory / TOKENIZER
    return read_file(path) if path.exists() or not whole.exists() else sentencepiece_of(whole)


def read_file(path: Path) -> bytes:
    """Read a file of the tokenizer.

    Raises:
        FileNotFoundError: if it is missing; the message says why it may be.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: No such file; copy it from the model that this one was trained from"
        ) from error


def read_lines(path: Path) -> list[str]:
    """Read a text file of the tokenizer; the last line has no line break.

    Raises:
        FileNotFoundError, UnreadableModel: if the file is missing or damaged.
    """
    try:
        return read_file(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableModel(f"{path}: is not UTF-8") from error


def added_types(directory: Path) -> dict[int, str]:
    """The types that the tokenizer adds to its vocabulary, by number, where files list them.

    Raises:
        UnreadableModel: for a damaged file.
    """
    found: dict[int, str] = {}
    whole, config = directory / TOKENIZER, directory / "tokenizer_config.json"
    for path, entries in ((whole, _entries(whole, "added_tokens")), (config, _decoders(config))):
        found.update(_by_number(path, ((entry.get("content"), n) for n, entry in entries)))
    path = directory / "added_tokens.json"
    if path.exists():
        found.update(read_vocabulary(path))
    return found


def _entries(path: Path, name: str) -> list[tuple[Any, dict[str, Any]]]:
    entries = Fields.read(path).values.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UnreadableModel(f"{path}: {name} is not a list of types")
    return [(entry.get("id"), entry) for entry in entries]


def _decoders(path: Path) -> list[tuple[Any, dict[str, Any]]]:
    entries = Fields.read(path).values.get("added_tokens_decoder", {})
    if not isinstance(entries, dict) or not all(isinstance(own, dict) for own in entries.values()):
        raise UnreadableModel(f"{path}: added_tokens_decoder is not an object of types")
    is_number = re.compile(r"[0-9]{1,9}").fullmatch
    return [(int(key) if is_number(key) else key, entry) for key, entry in entries.items()]


def special_tokens(directory: Path) -> list[str]:
    """The additional special tokens that a directory lists, in order, without their numbers."""
    listed = Fields.read(directory / "special_tokens_map.json").values
    tokens = listed.get("additional_special_tokens", [])
    if not isinstance(tokens, list):
        return []
    contents = [token.get("content") if isinstance(token, dict) else token for token in tokens]
    return [content for content in contents if isinstance(content, str)]


def tokenizer_class(directory: Path, config: Fields) -> str:
    """The class of the tokenizer; empty if no file names it.

    Raises:
        UnreadableModel: for a damaged file.
    """
    options = Fields.read(directory / "tokenizer_config.json")
    name = options.text("tokenizer_class") or config.text("tokenizer_class") or ""
    return "" if name in ANY_TOKENIZER else name.removesuffix("Fast")
