"""The vocabularies of fairseq's models of WMT 2019 in Hugging Face's format (FSMT)."""

from pathlib import Path

from ..data.model_files import SUBWORD_NMT
from .building import SPECIAL
from .fields import Fields
from .imported import UnreadableModel
from .vocabularies import NumberedVocabulary, numbered, read_lines, read_vocabulary, sizes

VERSION = "#version: 0.2"
# The end of a word in FSMT's files, and the mark of a part of a word in fairseq's.
END, PART = "</w>", "@@"


def read_fsmt(directory: Path, config: Fields) -> NumberedVocabulary:
    """Read the vocabularies of an FSMTTokenizer, whose text is tokenised by Moses.

    ``merges.txt`` becomes codes of subword-nmt.

    Raises:
        FileNotFoundError, UnreadableModel: if a file is missing or damaged.
    """
    symbols = []
    for side, size in zip(("src", "tgt"), sizes(config, 42024)):
        path = directory / f"vocab-{side}.json"
        by_number = {n: of_fairseq(symbol) for n, symbol in read_vocabulary(path).items()}
        symbols.append(numbered(path, by_number, size))
    source_lang, target_lang = _languages(config)
    return NumberedVocabulary(
        source=symbols[0],
        target=symbols[1],
        files={SUBWORD_NMT: _codes(directory / "merges.txt")},
        source_lang=source_lang,
        target_lang=target_lang,
        bpe="subword_nmt",
    )


def of_fairseq(symbol: str) -> str:
    """fairseq's symbol of a symbol of FSMT."""
    if symbol in SPECIAL:
        return symbol
    return symbol.removesuffix(END) if symbol.endswith(END) else symbol + PART


def of_fsmt(symbol: str) -> str:
    """The inverse of :func:`of_fairseq`."""
    if symbol in SPECIAL:
        return symbol
    return symbol.removesuffix(PART) if symbol.endswith(PART) else symbol + END


def _languages(config: Fields) -> tuple[str, str]:
    languages = config.values.get("langs", ["source", "target"])
    is_pair = isinstance(languages, list) and len(languages) == 2
    if not is_pair or not all(isinstance(own, str) and own for own in languages):
        raise config.problem("langs", "it must be a list of two languages")
    return languages[0], languages[1]


def _codes(path: Path) -> bytes:
    lines = (line for line in read_lines(path) if line and not line.startswith("#version"))
    pairs = [line.split()[:2] for line in lines]
    if any(len(pair) != 2 for pair in pairs):
        raise UnreadableModel(f"{path}: has a line that is not a pair of symbols")
    return "\n".join([VERSION, *map(" ".join, pairs), ""]).encode()
