"""Binarises sentences in subwords as training data, with or without references."""

from collections.abc import Callable
from pathlib import Path

# This import also lets torch load fairseq's checkpoints.
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.tools.distillation.dataset import binarize, copy_rest

from . import commands
from .crossing import crossed


def read(path: Path) -> list[str]:
    """The lines of a text. Not splitlines(), since sentences can contain other line separators."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def binarise(work: Path, name: str, sources: list[str], targets: list[str]) -> None:
    """Create training data like ``work / "data"`` from text in subwords."""
    text = work / name / "text"
    text.mkdir(parents=True, exist_ok=True)
    for language, lines in (("en", sources), ("de", targets)):
        atomic_files.write_lines(text / f"train.{language}", lines)
    binarize(work / name, work / "data", ("en", "de"), workers=1)
    copy_rest(work / "data", work / name)


def crossed_lines(lines: list[str], n: int, seed: int) -> list[str]:
    """Create n new sentences from lines in subwords; see :func:`~.crossing.crossed`."""
    new = crossed([tuple(line.split()) for line in lines], n, seed)
    return [" ".join(sentence) for sentence in new]


def with_crossed(work: Path, n: int, seed: int) -> list[str]:
    """The sources of the training data, each once, and n crossed ones."""
    sentences = list(dict.fromkeys(read(work / "data/text/train.en")))
    return sentences + crossed_lines(sentences, n, seed)


def without_references(work: Path, name: str, gather: Callable[[Path], list[str]]) -> None:
    """Binarise sources to translate. fairseq requires targets, so sources serve as targets.

    Args:
        gather: returns the sources, given the work directory.
    """
    if not commands.finished(work / name):
        sources = gather(work)
        binarise(work, name, sources, sources)
        commands.mark_finished(work / name)
