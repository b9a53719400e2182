"""Marian's vocabularies, ``vocab.yml`` and ``*.spm``, in the order of fairseq's dictionaries."""

import re
from pathlib import Path

import numpy as np

from .building import SPECIAL, made_up_words
from .imported import UnreadableModel
from .plain_yaml import parsed
from .vocabularies import Order, sentencepiece_model

BOS, PAD, EOS, UNK = SPECIAL
ABSENT = -1
N_NEW = SPECIAL.index(EOS)  # Marian's vocabularies begin with </s> and <unk>.


def numbers_of(n_types: int) -> np.ndarray:
    """fairseq's number of each type of a vocabulary that Marian made, int64."""
    return np.arange(n_types) + N_NEW


def is_usual(vocabulary: Order) -> bool:
    """Whether :func:`numbers_of` gives the numbers of the vocabulary."""
    numbers = numbers_of(len(vocabulary.rows) - N_NEW)
    return all(vocabulary.rows[number] == row for row, number in enumerate(numbers))


def pieces_of_yaml(path: Path) -> tuple[list[str], int, int]:
    """The pieces of a ``vocab.yml`` in order, and the numbers of EOS and of unknown words.

    Raises:
        UnreadableModel: if a number is missing or repeated.
    """
    numbers = parsed(path.read_bytes(), path)
    if not isinstance(numbers, dict) or not numbers:
        raise UnreadableModel(f"{path}: is not a vocabulary of pieces and numbers")
    pieces = [""] * len(numbers)
    free = set(range(len(numbers)))
    for piece, number in numbers.items():
        if not isinstance(number, str) or not re.fullmatch(r"[0-9]{1,9}", number):
            raise UnreadableModel(f"{path}: {piece!r:.100} has no number")
        if int(number) not in free:
            raise UnreadableModel(
                f"{path}: the numbers of the {len(pieces)} pieces have gaps, or one is repeated: "
                f"{piece!r:.100} has {number}"
            )
        free.remove(int(number))
        pieces[int(number)] = piece
    for special in (EOS, UNK):
        if special not in numbers:
            raise UnreadableModel(f"{path}: has no {special}")
    return pieces, pieces.index(EOS), pieces.index(UNK)


def pieces_of_sentencepiece(path: Path) -> tuple[list[str], int, int]:
    """The pieces of a SentencePiece model in order, and the numbers of EOS and of unknown words.

    Raises:
        UnreadableModel: if it is damaged, or has no EOS.
    """
    model = sentencepiece_model(path, path.read_bytes())
    if min(model.eos_id(), model.unk_id()) < 0:
        raise UnreadableModel(f"{path}: has no {EOS} or no {UNK}")
    pieces = [model.id_to_piece(number) for number in range(len(model))]
    return pieces, model.eos_id(), model.unk_id()


def vocabulary(path: Path, n_rows: int) -> Order:
    """Read a vocabulary for embeddings of ``n_rows`` types.

    Types beyond the file's get symbols that no text has; pieces beyond the embeddings, which only
    a ``vocab.yml`` may have, are left out, as Marian does.

    Raises:
        UnreadableModel: for damaged files, and those of another size.
    """
    is_yaml = path.suffix in (".yml", ".yaml", ".json")
    if not is_yaml and path.suffix != ".spm":
        raise UnreadableModel(f"{path}: has a format that is not supported: give .spm or .yml")
    pieces, eos, unk = (pieces_of_yaml if is_yaml else pieces_of_sentencepiece)(path)
    if len(pieces) > n_rows and not is_yaml:
        raise UnreadableModel(f"{path}: has {len(pieces)} pieces, but the model {n_rows}")
    if max(eos, unk) >= n_rows:
        raise UnreadableModel(f"{path}: {EOS} or {UNK} is not one of the model's {n_rows} types")
    return ordered(pieces[:n_rows], n_rows, eos, unk)


def ordered(pieces: list[str], n_rows: int, eos: int, unk: int) -> Order:
    """The vocabulary of these pieces in fairseq's order.

    Pieces that are repeated, or that a dictionary's file cannot hold since they are empty or have
    spaces, are named ``madeupword0000`` and so on, and so are embeddings without a piece.

    Args:
        n_rows: the number of embeddings, at least that of pieces.
        eos, unk: the numbers of EOS and of unknown words.
    """
    bos = pieces.index(BOS) if BOS in pieces else ABSENT
    special = [bos, ABSENT, eos, unk]
    others = [row for row in range(n_rows) if row not in special]
    names = {row: pieces[row] for row in others if row < len(pieces)}
    free = made_up_words({*SPECIAL, *names.values()})
    symbols = dict.fromkeys(SPECIAL)
    for row in others:
        symbol = names.get(row, "")
        is_usable = symbol and not re.search(r"\s", symbol) and symbol not in symbols
        symbols[symbol if is_usable else next(free)] = None
    return Order(tuple(symbols), (*special, *others))
