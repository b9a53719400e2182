"""Distilled training data: the sources with the baseline's own translations (section 6.2).

The heads have to guess what p_1 will say, and on distilled data that is what they are taught.
"""

import re
from pathlib import Path
from typing import List


def take_pairs(text: Path, destination: Path, every: int) -> None:
    """Copy every n-th line of the tokenised training text, both languages alike."""
    for language in ("en", "de"):
        lines = (text / f"train.{language}").read_text(encoding="utf-8").splitlines(True)
        write(destination / f"pairs.{language}", lines[::every])


def write_distilled(results: Path, destination: Path) -> None:
    """The sources and hypotheses that fairseq-generate printed, as parallel text."""
    log = results.read_text(encoding="utf-8")
    for language, mark in (("en", "S"), ("de", "H")):
        fields = r"[^\t\n]*\t" if mark == "H" else ""
        found = re.findall(rf"(?m)^{mark}-(\d+)\t{fields}(.*)$", log)
        lines = [text + "\n" for _, text in sorted(found, key=lambda pair: int(pair[0]))]
        write(destination / f"train.{language}", lines)


def write(path: Path, lines: List[str]) -> None:
    """Write lines that end in newlines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
