"""Recognises models of other programs, without torch and fairseq."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.model_files import PathLike

if TYPE_CHECKING:
    from .imported import Imported

HUGGING_FACE, MARIAN = ".huggingface", ".marian"
PARAMETERS = ("model*.safetensors*", "pytorch_model*.bin*")
MARIAN_FILES = ("*.npz", "model*.bin", "*.intgemm*.bin")


def reader_of(path: Any) -> str:
    """The module that reads a file or directory; empty for files of fairseq and of this package."""
    if not isinstance(path, (str, Path)):
        return ""
    place = Path(path)
    if place.is_file():
        return MARIAN if place.suffix in (".npz", ".bin") else ""
    if not place.is_dir():
        return ""

    def has(patterns: tuple[str, ...]) -> bool:
        return any(any(place.glob(pattern)) for pattern in patterns)

    # The Trainer of transformers keeps the state of its optimizer in *.pt beside the parameters.
    is_hugging_face = (place / "config.json").is_file()
    if has(("*.pt",)) and not (is_hugging_face and has(PARAMETERS)):
        return ""
    if is_hugging_face:
        return HUGGING_FACE
    return MARIAN if has(MARIAN_FILES) else ""


def read(path: PathLike) -> "Imported":
    """Read a model of another program.

    Raises:
        OSError: if a file is missing.
        UnreadableModel: if it cannot be imported; the message names the file and the reason.
    """
    reader = reader_of(path)
    if not reader:
        if not Path(path).exists():
            raise FileNotFoundError(f"{path}: no such file or directory")
        raise ValueError(
            f"{path}: not a model that can be imported (looked for config.json of Hugging Face, "
            f"and {', '.join(MARIAN_FILES)} of Marian)"
        )
    return importlib.import_module(reader, __package__).read(Path(path))
