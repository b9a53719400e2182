"""Sentences in subwords as training data, references or not."""

from pathlib import Path
from typing import Callable, List

# It lets torch load fairseq's checkpoints, too.
from fairseq_fastdec.tools import atomic_files
from fairseq_fastdec.tools.distillation.dataset import binarize, copy_rest

from . import commands


def read(path: Path) -> List[str]:
    """The lines of a text; what else Python takes for their ends can be in a sentence."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def binarise(work: Path, name: str, sources: List[str], targets: List[str]) -> None:
    """Training data like ``work / "data"``, of text in subwords."""
    text = work / name / "text"
    text.mkdir(parents=True, exist_ok=True)
    for language, lines in (("en", sources), ("de", targets)):
        atomic_files.write_lines(text / f"train.{language}", lines)
    binarize(work / name, work / "data", ("en", "de"), workers=1)
    copy_rest(work / "data", work / name)


def without_references(work: Path, name: str, gather: Callable[[Path], List[str]]) -> None:
    """Sources to be translated: fairseq wants targets, too, which nobody reads.

    Args:
        gather: finds them in the work directory, if that has not been done.
    """
    if not commands.finished(work / name):
        sources = gather(work)
        binarise(work, name, sources, sources)
        commands.mark_finished(work / name)
