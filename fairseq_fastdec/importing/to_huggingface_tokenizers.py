"""The files of tokenizers of transformers, for models of fairseq."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Optional

from ..data.model_files import (
    ENCODER_OF_GPT2,
    GPT2,
    SENTENCEPIECE,
    SUBWORD_NMT,
    TARGET_PIECES,
)
from ..translating.languages import Languages, Pair
from . import published_languages
from .building import SPECIAL
from .huggingface_fsmt import of_fsmt

logger = logging.getLogger(__name__)

PLAIN = "{text} </s>"
LANGUAGE_LISTS = {"m2m100": published_languages.M2M_100, "wmt21": published_languages.WMT_21}


def tokenizer_files(
    kind: str, dictionaries: Any, files: Mapping[str, bytes], languages: Languages, pair: Pair
) -> dict[str, bytes]:
    """The files of the tokenizer that encodes sentences as fairseq does, by name.

        SentencePiece, one pair or several targets    MarianTokenizer
        SentencePiece, languages of M2M-100           M2M100Tokenizer
        BPE of GPT-2                                  BartTokenizer
        subword-nmt or fastBPE, after Moses           FSMTTokenizer

    A warning tells that there is none for other models, such as NLLB-200 and mBART. The files of
    the model that they were imported from are theirs.

    Args:
        kind: the ``model_type`` of the model.
        dictionaries: see :class:`~.to_huggingface.Dictionaries`.
        files, languages, pair: see :func:`~.to_huggingface.export`.
    """
    source_format = languages.source_format
    codes = files.get(SUBWORD_NMT)
    if SENTENCEPIECE in files and source_format in (PLAIN, "{target} {text} </s>"):
        return _marian(dictionaries, files, pair)
    if SENTENCEPIECE in files and source_format == "{source} {text} </s>":
        found = _m2m_100(dictionaries, files, languages, pair)
        if found is not None:
            return found
    if {ENCODER_OF_GPT2, GPT2} <= set(files) and source_format == "<s> {text} </s>":
        return _bart(dictionaries, files)
    if codes is not None and source_format == PLAIN and _marks_last_characters(codes):
        return _fsmt(dictionaries, codes, pair)
    logger.warning(
        "no tokenizer of transformers is known for the files %s and --source-format %s; copy the "
        "files of the tokenizer that the model was trained with",
        ", ".join(files) or "(none)", source_format,
    )  # fmt: skip
    return {}


def as_json(content: Any) -> bytes:
    """The content of a JSON file, like those of transformers."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _numbers(symbols: list[str]) -> bytes:
    return as_json({symbol: number for number, symbol in enumerate(symbols)})


def _marian(dictionaries: Any, files: Mapping[str, bytes], pair: Pair) -> dict[str, bytes]:
    source, target = dictionaries
    options = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": pair.source,
        "target_lang": pair.target,
        "separate_vocabs": not dictionaries.are_same,
    }
    content = {
        "tokenizer_config.json": as_json(options),
        "source.spm": files[SENTENCEPIECE],
        "target.spm": files.get(TARGET_PIECES, files[SENTENCEPIECE]),
        "vocab.json": _numbers(source.symbols),
    }
    if not dictionaries.are_same:
        content["target_vocab.json"] = _numbers(target.symbols)
    return content


def _m2m_100(
    dictionaries: Any, files: Mapping[str, bytes], languages: Languages, pair: Pair
) -> Optional[dict[str, bytes]]:
    """The files of an M2M100Tokenizer; ``None`` if the dictionary is not in its order."""
    symbols = dictionaries.source.symbols
    for name, codes in LANGUAGE_LISTS.items():
        tokens = [f"__{code}__" for code in codes]
        first = dictionaries.source.indices.get(tokens[0])
        if first is not None and symbols[first : first + len(tokens)] == tokens:
            options = {
                "tokenizer_class": "M2M100Tokenizer",
                "language_codes": name,
                "src_lang": pair.source,
                "tgt_lang": pair.target,
            }
            return {
                "tokenizer_config.json": as_json(options),
                SENTENCEPIECE: files[SENTENCEPIECE],
                "vocab.json": _numbers(symbols[:first]),
            }
    return None


def _bart(dictionaries: Any, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a BartTokenizer, in which pieces have the numbers of fairseq's dictionary."""
    numbers = dictionaries.source.indices
    encoder = json.loads(files[ENCODER_OF_GPT2])
    vocab = {symbol: numbers[symbol] for symbol in (*SPECIAL, "<mask>") if symbol in numbers}
    for piece, number in encoder.items():
        if str(number) in numbers:
            vocab.setdefault(piece, numbers[str(number)])
    return {
        "tokenizer_config.json": as_json({"tokenizer_class": "BartTokenizer"}),
        "vocab.json": as_json(vocab),
        "merges.txt": files[GPT2],
    }


def _marks_last_characters(codes: bytes) -> bool:
    """Whether the last character of a word has the mark of its end, as in transformers.

    In the first version of subword-nmt's files, the mark is a symbol of its own.
    """
    words = codes.partition(b"\n")[0].split()
    return words[:1] == [b"#version:"] and words[1] != b"0.1" or len(words) == 3


def _fsmt(dictionaries: Any, codes: bytes, pair: Pair) -> dict[str, bytes]:
    lines = [line.split()[:2] for line in codes.decode().splitlines()]
    merges = [" ".join(pair) for pair in lines if pair and not pair[0].startswith("#version")]
    options = {"tokenizer_class": "FSMTTokenizer", "langs": list(pair)}
    vocabularies = {
        f"vocab-{side}.json": _numbers([of_fsmt(symbol) for symbol in dictionary.symbols])
        for side, dictionary in zip(("src", "tgt"), dictionaries)
    }
    return {
        "tokenizer_config.json": as_json(options),
        **vocabularies,
        "merges.txt": "\n".join([*merges, ""]).encode(),
    }
