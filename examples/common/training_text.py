"""Sentences in subwords as training data, references or not."""

from collections.abc import Callable
from pathlib import Path

# It lets torch load fairseq's checkpoints, too.
from fairseq_fastdec.tools import atomic_files
from fairseq_fastdec.tools.distillation.dataset import binarize, copy_rest

from . import commands
from .crossing import crossed


def read(path: Path) -> list[str]:
    """The lines of a text; what else Python takes for their ends can be in a sentence."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def binarise(work: Path, name: str, sources: list[str], targets: list[str]) -> None:
    """Training data like ``work / "data"``, of text in subwords."""
    text = work / name / "text"
    text.mkdir(parents=True, exist_ok=True)
    for language, lines in (("en", sources), ("de", targets)):
        atomic_files.write_lines(text / f"train.{language}", lines)
    binarize(work / name, work / "data", ("en", "de"), workers=1)
    copy_rest(work / "data", work / name)


def crossed_lines(lines: list[str], n: int, seed: int) -> list[str]:
    """So many new sentences, of lines in subwords; see :func:`~.crossing.crossed`."""
    new = crossed([tuple(line.split()) for line in lines], n, seed)
    return [" ".join(sentence) for sentence in new]


def with_crossed(work: Path, n: int, seed: int) -> list[str]:
    """The sources of the training data, each once, and n crossed ones."""
    sentences = list(dict.fromkeys(read(work / "data/text/train.en")))
    return sentences + crossed_lines(sentences, n, seed)


def without_references(work: Path, name: str, gather: Callable[[Path], list[str]]) -> None:
    """Sources to be translated: fairseq wants targets, too, which nobody reads.

    Args:
        gather: finds them in the work directory, if that has not been done.
    """
    if not commands.finished(work / name):
        sources = gather(work)
        binarise(work, name, sources, sources)
        commands.mark_finished(work / name)
