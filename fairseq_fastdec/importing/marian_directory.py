"""The files of a model of Marian: which is the model, and which are its vocabularies."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ..translating.languages import Pair
from .imported import UnreadableModel
from .marian_options import MarianOptions
from .plain_yaml import parsed

CONFIGS = ("decoder.yml", "*.decoder.yml", "config*.yml")
METADATA = ("metadata.json", "model_info.json", "modelMeta.json")
LONGEST = 1 << 20  # bytes of a configuration
# Words of file names that name the sides, each with its language's code.
SIDES = (("source", "src", "srcvocab"), ("target", "trg", "tgt", "trgvocab", "tgtvocab"))
JOINED = "([a-z]{4}|[a-z]{6})"
# model.enpt.intgemm.alphas.bin, vocab.enpt.spm, lex.50.50.enpt.s2t.bin
FILES = re.compile(
    rf"(?:model\.{JOINED}\.intgemm.*|(?:src|trg)?vocab\.{JOINED}\.spm|lex\..*{JOINED}\.s2t\.bin)"
)
# enpt-1693087644, opus-mt-en-de, en-pt-tiny
FOLDERS = re.compile(
    rf"(?:{JOINED}-\d+|opus-mt-(?:\w+-)*([a-z]{{2,3}}-[a-z]{{2,3}})|([a-z]{{2}}-[a-z]{{2}})(?:[-_.].*)?)"
)


class VocabularyFiles(NamedTuple):
    """The vocabularies of both sides, and the models of SentencePiece that make their pieces."""

    source: Path
    target: Path
    source_pieces: Path
    target_pieces: Path


@dataclass(frozen=True)
class MarianDirectory:
    """The files of one model.

    Attributes:
        model: ``.npz`` or ``.bin``.
        config: the options of decoding, named as in Marian; empty if there is no file of them.
        languages: by the names of files; ``source`` and ``target`` if they do not tell.
    """

    model: Path
    config: MarianOptions
    languages: Pair
    vocabularies: VocabularyFiles
    shortlist: Optional[Path]


def found(path: Path) -> MarianDirectory:
    """Find the files of a model.

    Args:
        path: a directory, or the model's file in it.

    Raises:
        UnreadableModel: if a file is missing, or if several could be meant.
        OSError: if the directory cannot be read.
    """
    is_file = path.is_file()
    folder = path.parent if is_file else path
    config = _config(folder, path.name if is_file else "")
    model = path if is_file else _model(folder, config)
    languages = _languages(folder)
    vocabularies = _vocabularies(folder, config, languages)
    lists = _named(folder, config, "shortlist") or sorted(folder.glob("lex*.bin"))
    return MarianDirectory(model, config, languages, vocabularies, next(iter(lists), None))


def _config(folder: Path, name: str) -> MarianOptions:
    """The options of decoding, from a file that names this model, or else from the first one."""
    files = [file for pattern in CONFIGS for file in sorted(folder.glob(pattern))]
    own = [file for file in files if name and file.name.startswith(name)]
    for file in [*own, *files]:
        values = parsed(_short(file), file)
        if not isinstance(values, dict):
            raise UnreadableModel(f"{file}: is not a list of options")
        return MarianOptions(file, values)
    return MarianOptions(folder, {})


def _short(path: Path) -> bytes:
    """The bytes of a file that is expected to be short."""
    if path.stat().st_size > LONGEST:
        raise UnreadableModel(f"{path}: has more than {LONGEST} bytes")
    return path.read_bytes()


def _named(folder: Path, config: MarianOptions, name: str) -> list[Path]:
    """The files of a directory that an option names, whatever directory it says."""
    # A shortlist is followed by numbers or switches.
    names = (Path(word).name for word in config.words(name))
    return [folder / name for name in names if name and (folder / name).is_file()]


def _model(folder: Path, config: MarianOptions) -> Path:
    """The model of a directory."""
    named = _named(folder, config, "models")
    files = named or [
        file
        for pattern in ("*.npz", "model*.bin")
        for file in sorted(folder.glob(pattern))
        if not file.name.endswith(".optimizer.npz")
    ]
    if not files:
        raise UnreadableModel(f"{folder}: has no model of Marian (looked for *.npz, model*.bin)")
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise UnreadableModel(f"{folder}: has {len(files)} models ({names}); give one of them")
    return files[0]


def _vocabularies(folder: Path, config: MarianOptions, languages: Pair) -> VocabularyFiles:
    """The vocabularies of a directory, and the models that make pieces."""
    named = _named(folder, config, "vocabs")
    patterns = ("*vocab*.spm", "*vocab*.yml", "*vocab*.yaml", "*vocab*.json") if not named else ()
    for pattern in patterns:
        named = named or sorted(folder.glob(pattern))
    if any(file.suffix == ".fsv" for file in [*named, *folder.glob("*.fsv")]):
        raise UnreadableModel(f"{folder}: factored vocabularies (.fsv) are not supported")
    source, target = _two(folder, named, languages)
    if source.suffix == target.suffix == ".spm":
        return VocabularyFiles(source, target, source, target)
    pieces = _two(folder, sorted({*folder.glob("*.spm")} - {source, target}), languages)
    return VocabularyFiles(source, target, *pieces)


def _two(folder: Path, files: list[Path], languages: Pair) -> tuple[Path, Path]:
    """The files of the source and of the target; both may have one."""
    if len(files) == 1:
        return files[0], files[0]
    if len(files) != 2:
        raise UnreadableModel(
            f"{folder}: has {len(files)} vocabularies or models of SentencePiece, not 1 or 2"
        )
    first, second = (set(re.split(r"[._-]", file.name)) for file in files)
    source, target = ({*words, language} for words, language in zip(SIDES, languages))
    if first & target and second & source:
        return files[1], files[0]
    return files[0], files[1]


def _languages(folder: Path) -> Pair:
    """The languages, from the names of files, the metadata or the directory's name."""
    for file in sorted(folder.iterdir()):
        if pair := _pair(FILES.fullmatch(file.name)):
            return pair
    for metadata in METADATA:
        if pair := _of_metadata(folder / metadata):
            return pair
    return _pair(FOLDERS.fullmatch(folder.resolve().name)) or Pair("source", "target")


def _pair(match: Optional[re.Match[str]]) -> Optional[Pair]:
    """The languages of a match, joined or separated by a hyphen."""
    if match is None:
        return None
    (codes,) = filter(None, match.groups())
    source, hyphen, target = codes.partition("-")
    half = len(codes) // 2
    return Pair(source, target) if hyphen else Pair(codes[:half], codes[half:])


def _of_metadata(path: Path) -> Optional[Pair]:
    """The languages that a file of metadata names, as Firefox's do."""
    if not path.is_file():
        return None
    try:
        values: Any = json.loads(_short(path))
    except (ValueError, RecursionError) as error:
        raise UnreadableModel(f"{path}: is not JSON") from error
    if not isinstance(values, dict):
        return None
    codes = (str(values.get("sourceLanguage", "")), str(values.get("targetLanguage", "")))
    if all(re.fullmatch(r"[A-Za-z]{2,3}([-_]\w{2,8})?", code) for code in codes):
        return Pair(*codes)
    return _pair(FOLDERS.fullmatch(str(values.get("shortName", ""))))
