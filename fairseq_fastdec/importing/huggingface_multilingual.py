"""The vocabularies of the models of many languages: M2M-100, NLLB-200 and mBART."""

import re
from dataclasses import dataclass
from pathlib import Path

from ..data.model_files import SENTENCEPIECE
from . import published_languages
from .building import SPECIAL
from .fields import Fields
from .imported import UnreadableModel
from .vocabularies import (
    NumberedVocabulary,
    added_types,
    numbered,
    pieces_of,
    read_file,
    read_sentencepiece,
    read_vocabulary,
    special_tokens,
    tokenizer_class,
)

SUFFIXED = "{text} </s> {source}"
PREFIXED = "{source} {text} </s>"
MASK = "<mask>"


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer of transformers.

    Attributes:
        pattern: the symbol of a language, and its name as a group.
        codes: the languages of the published model.
        source_format: see :class:`~.imported.Imported`.
        starts_with_language: see :class:`~.vocabularies.NumberedVocabulary`.
    """

    pattern: str
    codes: list[str]
    source_format: str = PREFIXED
    starts_with_language: bool = False


TOKENIZERS = {
    "NllbTokenizer": Tokenizer(r"([a-z]{3}_[A-Z][a-z]{3})", published_languages.NLLB_200),
    "MBart50Tokenizer": Tokenizer(r"([a-z]{2}_[A-Z]{2})", published_languages.MBART_50),
    "MBartTokenizer": Tokenizer(
        r"([a-z]{2}_[A-Z]{2})", published_languages.MBART_25, SUFFIXED, True
    ),
}
M2M_100 = Tokenizer(r"__(\w+)__", published_languages.M2M_100)


def read_multilingual(directory: Path, config: Fields) -> NumberedVocabulary:
    """Read the vocabulary of an M2M100Tokenizer, NllbTokenizer, MBartTokenizer or MBart50Tokenizer.

    Raises:
        FileNotFoundError, UnreadableModel: if a file is missing or damaged.
    """
    options = Fields.read(directory / "tokenizer_config.json")
    kind = tokenizer_class(directory, config)
    if not kind and config.text("model_type") == "m2m_100":
        kind = "M2M100Tokenizer" if (directory / "vocab.json").exists() else "NllbTokenizer"
    if kind == "M2M100Tokenizer":
        return _read_m2m_100(directory, config, options)
    model = read_sentencepiece(directory)
    pieces = pieces_of(directory / SENTENCEPIECE, model)
    if not kind:
        of_mbart_50 = len(pieces) + 1 + len(published_languages.MBART_50)
        is_mbart_50 = config.count("vocab_size") >= of_mbart_50
        kind = "MBart50Tokenizer" if is_mbart_50 else "MBartTokenizer"
    symbols = _shifted(directory, config, pieces, TOKENIZERS[kind])
    return _vocabulary(directory, config, options, TOKENIZERS[kind], symbols, model)


def _read_m2m_100(directory: Path, config: Fields, options: Fields) -> NumberedVocabulary:
    """Read a ``vocab.json``, which the languages follow in the order of their list."""
    path = directory / "vocab.json"
    symbols = read_vocabulary(path)
    model = read_file(directory / SENTENCEPIECE)
    pieces_of(directory / SENTENCEPIECE, model)  # which finds damage
    codes = M2M_100.codes
    if options.text("language_codes") == "wmt21":
        codes = published_languages.WMT_21
    first = max(symbols, default=-1) + 1
    symbols.update((first + i, f"__{code}__") for i, code in enumerate(codes))
    symbols = {**added_types(directory), **symbols}
    return _vocabulary(directory, config, options, M2M_100, symbols, model)


def _shifted(
    directory: Path, config: Fields, pieces: list[str], tokenizer: Tokenizer
) -> dict[int, str]:
    """The types by number: pieces have that of fairseq, which is one more than SentencePiece's.

    The languages and ``<mask>`` follow.
    """
    path = directory / SENTENCEPIECE
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        raise UnreadableModel(f"{path}: does not begin with the pieces <unk>, <s> and </s>")
    symbols = dict(enumerate([*SPECIAL, *pieces[3:]]))
    first = len(symbols)
    added = {n: symbol for n, symbol in added_types(directory).items() if n >= first}
    if not any(re.fullmatch(tokenizer.pattern, symbol) for symbol in added.values()):
        n_free = config.count("vocab_size") - first
        added = dict(enumerate(_listed(directory, tokenizer, n_free), first))
    return {**symbols, **added}


def _listed(directory: Path, tokenizer: Tokenizer, n_free: int) -> list[str]:
    """The languages and ``<mask>``, in order, of a directory that does not number them.

    Languages that are not published follow ``<mask>``, unless the model has no room for the
    published ones.

    Args:
        n_free: the number of types of the model that are not pieces.
    """
    listed = [own for own in special_tokens(directory) if re.fullmatch(tokenizer.pattern, own)]
    if listed and n_free <= len(tokenizer.codes):
        return [*listed, MASK]
    return [*tokenizer.codes, MASK, *(own for own in listed if own not in tokenizer.codes)]


def _vocabulary(
    directory: Path,
    config: Fields,
    options: Fields,
    tokenizer: Tokenizer,
    symbols: dict[int, str],
    model: bytes,
) -> NumberedVocabulary:
    path = directory / SENTENCEPIECE
    names = numbered(path, symbols, config.count("vocab_size"))
    is_language = re.compile(tokenizer.pattern).fullmatch
    languages = {found[1]: symbol for symbol in names if (found := is_language(symbol))}
    source_format = tokenizer.source_format
    # NLLB-200 was first published with the languages of sources at the end.
    if options.flag("legacy_behaviour", False):
        source_format = SUFFIXED
    return NumberedVocabulary(
        source=names,
        target=names,
        files={SENTENCEPIECE: model},
        languages=languages,
        source_format=source_format,
        source_lang=options.text("src_lang"),
        target_lang=options.text("tgt_lang"),
        starts_with_language=tokenizer.starts_with_language,
    )
