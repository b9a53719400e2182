"""Finds checkpoints, dictionaries, BPE codes and recorded options by their names."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from .text import PathLike, check_can_be_read_again, opened

CHECKPOINTS = ("checkpoint.pt", "checkpoint_best.pt")
# The names of BPE files in fairseq's hub and archives, and in our examples.
SUBWORD_NMT, SENTENCEPIECE, GPT2 = "bpe.codes", "sentencepiece.bpe.model", "vocab.bpe"
CODES = (SUBWORD_NMT, "code", "bpecodes", SENTENCEPIECE, "spm.model", GPT2)
# The model of SentencePiece for the target language, beside that for the source language.
TARGET_PIECES = "target.spm"
# The dictionary of all languages of a model.
DICTIONARY_OF_ALL = "dict.all.txt"
# In data for a model whose inputs name languages: the options of the task translation_languages.
LANGUAGES = "languages.json"
# The decoding options that an imported model was published with.
RECORDED = "generation.json"
# Those that are names of files beside the checkpoint.
NAMES_OF_FILES = frozenset({"shortlist"})
# The BPE of GPT-2 has two files; this one is beside vocab.bpe.
ENCODER_OF_GPT2 = "encoder.json"
BESIDE_CODES = (ENCODER_OF_GPT2, TARGET_PIECES)


class Codes(NamedTuple):
    """A BPE file, and the name of the BPE that reads it."""

    path: str
    bpe: str


def checkpoints_of(path: Union[PathLike, Sequence[PathLike]]) -> list[str]:
    """The checkpoint files of a model, or of the members of an ensemble.

    Args:
        path: a checkpoint, or a directory with one; several in a list, or joined by colons as in
            fairseq, are an ensemble.

    Raises:
        FileNotFoundError: if the file does not exist, or the directory has no checkpoint.
        ValueError: for a directory with several checkpoints, none of which has a standard name,
            and for an empty path or list.
    """
    if isinstance(path, (str, os.PathLike)):
        path = [path]
    if not path:
        raise ValueError("path []: give at least one checkpoint")
    members = [member for name in path for member in _members(os.fspath(name))]
    if not all(members):
        raise ValueError(
            f"path {':'.join(members)!r}: is empty; give a checkpoint of fairseq-train, its "
            "directory, or a bundle"
        )
    return [_checkpoint_of(Path(member)) for member in members]


def _members(name: str) -> list[str]:
    """The checkpoints of an ensemble that are joined by colons, unless a file has this name."""
    return [name] if os.path.exists(name) else name.split(os.pathsep)


def _checkpoint_of(path: Path) -> str:
    if path.is_file():
        return str(path)
    if not path.is_dir():
        raise FileNotFoundError(
            f"path {path}: no such file or directory; give a checkpoint of fairseq-train, or its "
            "directory"
        )
    for name in CHECKPOINTS:
        if (path / name).is_file():
            return str(path / name)
    found = sorted(path.glob("*.pt"))
    if len(found) == 1:
        return str(found[0])
    looked_for = f"{', '.join(CHECKPOINTS)} and *.pt"
    if not found:
        raise FileNotFoundError(
            f"path {path}: has no checkpoint (looked for {looked_for}); give the file, or import a "
            "model of another program with `python -m fairseq_fastdec import`"
        )
    raise ValueError(
        f"path {path}: has {len(found)} checkpoints, but no "
        f"{' or '.join(CHECKPOINTS)}; give one of the files, such as {found[0]}, or an ensemble of "
        f"several: {os.pathsep.join(map(str, found[:2]))}, or a list in Python"
    )


def data_of(checkpoint: str, data: Optional[PathLike]) -> str:
    """The directory of the dictionaries: ``data``, or by default that of the checkpoint.

    Raises:
        FileNotFoundError: if it has no ``dict.LANGUAGE.txt``.
    """
    if data is not None and not os.fspath(data):
        raise ValueError("data '': is empty; give the directory of the dictionaries")
    folder = Path(checkpoint).parent if data is None else Path(data)
    if not any(folder.glob("dict.*.txt")):
        given = "" if data is not None else ", beside the checkpoint; give data=DIRECTORY"
        raise FileNotFoundError(
            f"data {folder}: has no dictionaries (looked for dict.LANGUAGE.txt){given}"
        )
    return str(folder)


def files_beside(checkpoints: Sequence[str], data: Optional[PathLike]) -> list[Path]:
    """The checkpoints, and the files that are read with them, in their directories and ``data``."""
    paths = [Path(checkpoint) for checkpoint in checkpoints]
    folders = [*(path.parent for path in paths), *([] if data is None else [Path(data)])]
    found = [file for folder in folders for file in folder.glob("dict.*.txt")]
    found += [Path(file) for checkpoint in checkpoints for file in recorded_files(checkpoint)]
    names = (*CODES, *BESIDE_CODES)
    return [*paths, *found, *(folder / name for folder in folders for name in names)]


def recorded_options(checkpoint: str) -> dict[str, Any]:
    """The decoding options that an imported model was published with; none for other models.

    Raises:
        ValueError: for a damaged file.
    """
    path = Path(checkpoint).with_name(RECORDED)
    if not path.is_file():
        return {}
    try:
        options = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: is not valid ({error}); import the model again") from error
    if not isinstance(options, dict):
        raise ValueError(f"{path}: is not valid (no options by name); import the model again")
    for name in options.keys() & NAMES_OF_FILES:
        options[name] = str(path.with_name(options[name]))
    return options


def recorded_files(checkpoint: str) -> list[str]:
    """The file of :func:`recorded_options`, if there is one, and the files that it names.

    Raises:
        ValueError: for a damaged file.
    """
    options = recorded_options(checkpoint)
    named = [options[name] for name in sorted(options.keys() & NAMES_OF_FILES)]
    return [str(Path(checkpoint).with_name(RECORDED)), *named] if options else []


def beside_codes(codes: str) -> list[str]:
    """The files that the BPE of a file reads besides."""
    paths = (Path(codes).with_name(name) for name in BESIDE_CODES)
    return [str(path) for path in paths if path.is_file()]


def codes_in(folders: Sequence[str]) -> Optional[Codes]:
    """The BPE file in the first directory that has one."""
    for folder in folders:
        for name in CODES:
            path = Path(folder) / name
            if path.is_file():
                return Codes(str(path), bpe_of(str(path)))
    return None


def bpe_of(codes: str) -> str:
    """The name of the BPE that reads a file, by the file's name and first line.

    Files of fastBPE have the count of each pair. Those of subword-nmt do not, and it exits on such
    lines.
    """
    if codes.endswith(".model"):
        return "sentencepiece"
    if os.path.basename(codes) == GPT2:
        return "gpt2"
    check_can_be_read_again("bpe_codes", codes)
    with opened(codes, errors="replace") as file:
        words = file.readline().split()
    return "fastbpe" if len(words) == 3 and words[2].isdigit() else "subword_nmt"
