"""The vocabularies of Marian's models in Hugging Face's format, such as Opus-MT."""

import re
from pathlib import Path
from typing import Optional

from ..data.model_files import SENTENCEPIECE, TARGET_PIECES
from .fields import Fields
from .imported import UnreadableModel
from .vocabularies import (
    NumberedVocabulary,
    added_types,
    numbered,
    pieces_of,
    read_file,
    read_vocabulary,
    sizes,
)

# A model of several target languages has a type for each, such as >>fra<<.
LANGUAGE = re.compile(r">>(.+)<<").fullmatch
# A published name such as opus-mt-en-de or opus-mt-tc-big-en-pt.
NAME = re.compile(r"opus-mt-(?:.+-)?(\w+)-(\w+)").search


def read_marian(directory: Path, config: Fields) -> NumberedVocabulary:
    """Read the vocabularies of a MarianTokenizer.

    Source and target can have separate vocabularies (``target_vocab.json``) and separate
    SentencePiece models (``target.spm``).

    Raises:
        FileNotFoundError, UnreadableModel: if a file is missing or damaged.
    """
    size, target_size = sizes(config, 58101)
    path, separate = directory / "vocab.json", directory / "target_vocab.json"
    source = numbered(path, {**added_types(directory), **read_vocabulary(path)}, size)
    if separate.exists():
        target = numbered(separate, read_vocabulary(separate), target_size)
    elif target_size == size:
        target = source
    else:
        raise UnreadableModel(
            f"{config.path}: the vocabularies have {size} and {target_size} types; {separate} is "
            "missing"
        )
    languages = {found[1]: symbol for symbol in source if (found := LANGUAGE(symbol))}
    source_lang, target_lang = _pair(directory)
    return NumberedVocabulary(
        source=source,
        target=target,
        files=_files(directory),
        languages=languages,
        source_format="{target} {text} </s>" if languages else "{text} </s>",
        source_lang=source_lang or "source",
        target_lang=target_lang or "target",
    )


def _files(directory: Path) -> dict[str, bytes]:
    files = {}
    for name, kept in (("source.spm", SENTENCEPIECE), ("target.spm", TARGET_PIECES)):
        files[kept] = read_file(directory / name)
        pieces_of(directory / name, files[kept])  # which finds damage
    if files[TARGET_PIECES] == files[SENTENCEPIECE]:
        del files[TARGET_PIECES]
    return files


def _pair(directory: Path) -> tuple[Optional[str], Optional[str]]:
    """The languages that the tokenizer names, or the directory or one above it."""
    tokenizer = Fields.read(directory / "tokenizer_config.json")
    pair = (tokenizer.text("source_lang"), tokenizer.text("target_lang"))
    if None in pair:
        for part in reversed(directory.absolute().parts):
            if found := NAME(part):
                return found[1], found[2]
    return pair
