"""Prepares a test set with an ensemble's preprocessing: text, subword codes, binarised data."""

import html
import re
from pathlib import Path
from typing import Optional

from examples.common import commands
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.tools import prepare_data

WORKERS = 2


def prepare(
    directory: Path,
    work: Path,
    source: str,
    target: str,
    sentences: int,
    text: Optional[Path] = None,
) -> None:
    """Tokenise, split into subwords and binarise the test set as in the models' training.

    Args:
        directory: the models' directory, with ``dict.LANG.txt``, ``bpecodes`` and the test set.
        work: receives ``bpe.codes``, ``reference.txt`` and ``data-bin``.
        sentences: use only this many sentences; 0 for all.
        text: the files to use as the test set, without ``.LANG`` (default: the directory's).
    """
    if commands.finished(work / "data-bin"):
        return
    sides = {
        language: read_lines(Path(f"{text}.{language}")) if text else read_test(directory, language)
        for language in (source, target)
    }
    if len(sides[source]) != len(sides[target]):
        raise SystemExit(
            f"{directory}: the test set has {len(sides[source])} lines of {source} but "
            f"{len(sides[target])} of {target}; they must translate each other line by line"
        )
    codes = work / "bpe.codes"
    atomic_files.write_lines(codes, subword_nmt_codes(read_lines(need(directory / "bpecodes"))))
    (work / "text").mkdir(exist_ok=True)
    for language, lines in sides.items():
        lines = lines[:sentences] if sentences else lines
        if language == target:
            atomic_files.write_lines(work / "reference.txt", lines)
        lines = prepare_data.tokenize(lines, language, WORKERS, f"tokenizing {language}")
        lines = prepare_data.split_subwords(lines, codes, WORKERS, f"subwords {language}")
        atomic_files.write_lines(work / "text" / f"test.{language}", lines)
    command = [*commands.fairseq("preprocess"), "-s", source, "-t", target]
    command += ["--testpref", work / "text" / "test", "--destdir", work / "data-bin"]
    for language, flag in ((source, "--srcdict"), (target, "--tgtdict")):
        command += [flag, need(directory / f"dict.{language}.txt")]
    commands.run(command)
    commands.mark_finished(work / "data-bin")


def read_test(directory: Path, language: str) -> list[str]:
    """The lines of ``test.LANG``, or of the one ``*.LANG.sgm``.

    Raises:
        SystemExit: if there is neither, or more than one.
    """
    plain = directory / f"test.{language}"
    if plain.is_file():
        return read_lines(plain)
    found = sorted(directory.glob(f"*.{language}.sgm"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise SystemExit(
            f"{directory}: needs test.{language} or exactly one *.{language}.sgm (found: {names}); "
            "see the README for how to get a test set"
        )
    return sgm_segments(found[0].read_text(encoding="utf-8"))


def sgm_segments(sgm: str) -> list[str]:
    """The segments of WMT's SGML, one line each, with entities such as ``&amp;`` resolved."""
    segments = re.findall(r"(?is)<seg\b[^>]*>(.*?)</seg>", sgm)
    return [" ".join(html.unescape(segment).split()) for segment in segments]


def subword_nmt_codes(lines: list[str]) -> list[str]:
    """Convert BPE codes of fastBPE or subword-nmt to the format of subword-nmt.

    fastBPE writes the frequency after each pair, and no version. It uses pairs like subword-nmt
    since version 0.2, with the end of a word joined to its last letter.
    """
    if not lines or lines[0].startswith("#version") or len(lines[0].split(" ")) == 2:
        return lines
    return ["#version: 0.2", *(" ".join(line.split(" ")[:2]) for line in lines)]


def need(path: Path) -> Path:
    """Check that a file exists, and return its path.

    Raises:
        SystemExit: if it does not.
    """
    if not path.is_file():
        raise SystemExit(
            f"{path}: missing; unpack a model archive there, as described in the README"
        )
    return path


def read_lines(path: Path) -> list[str]:
    """Lines separated only by newlines."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
