"""The vocabulary of BART: the byte-level BPE of GPT-2."""

import json
from pathlib import Path

from ..data.model_files import ENCODER_OF_GPT2, GPT2
from .building import SPECIAL
from .fields import Fields
from .imported import UnreadableModel
from .tokenizer_json import TOKENIZER, read_byte_level
from .vocabularies import NumberedVocabulary, by_number, numbered, read_lines, read_vocabulary


def read_bart(directory: Path, config: Fields) -> NumberedVocabulary:
    """Read the vocabulary of a BartTokenizer.

    fairseq's ``--bpe gpt2`` writes types as numbers. These are the numbers of ``vocab.json``, which
    becomes ``encoder.json``; ``merges.txt`` becomes ``vocab.bpe``.

    Raises:
        FileNotFoundError: if a file is missing.
        UnreadableModel: if one is damaged.
    """
    path, merges = directory / "vocab.json", directory / "merges.txt"
    if not path.exists() and (directory / TOKENIZER).exists():
        # transformers 5 saves only this file.
        path = merges = directory / TOKENIZER
        bpe = read_byte_level(path)
        own, lines = by_number(path, bpe.vocab), [*bpe.merges, ""]
    else:
        own, lines = read_vocabulary(path), read_lines(merges)
    if [own.get(number) for number in range(len(SPECIAL))] != list(SPECIAL):
        raise UnreadableModel(f"{path}: does not begin with {', '.join(SPECIAL)}")
    names = numbered(path, own, config.count("vocab_size", 50265))
    encoder = {name: number for number, name in enumerate(names)}
    kept = {*SPECIAL, "<mask>"}
    symbols = [name if name in kept else str(number) for name, number in encoder.items()]
    return NumberedVocabulary(
        source=symbols,
        target=symbols,
        files={
            ENCODER_OF_GPT2: json.dumps(encoder).encode(),
            GPT2: _merges(merges, lines),
        },
        source_format="<s> {text} </s>",
        source_lang="source",
        target_lang="target",
        bpe="gpt2",
    )


def _merges(path: Path, lines: list[str]) -> bytes:
    """The merges as fairseq reads them: without the first line, and before the last line break."""
    if not lines[0].startswith("#version"):
        lines = ["#version: 0.2", *lines]
    if lines[-1]:
        lines = [*lines, ""]
    if any(len(line.split()) != 2 for line in lines[1:-1]):
        raise UnreadableModel(f"{path}: has a line that is not a pair of symbols")
    return "\n".join(lines).encode()
