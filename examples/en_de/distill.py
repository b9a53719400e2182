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
    """The sources and hypotheses that fairseq-generate printed, as parallel text.

    A translation far longer than its source is a model going in circles, and is left out.
    """
    log = results.read_text(encoding="utf-8")
    sources = dict(re.findall(r"(?m)^S-(\d+)\t(.*)$", log))
    hypotheses = dict(re.findall(r"(?m)^H-(\d+)\t[^\t\n]*\t(.*)$", log))
    kept = [
        index
        for index in sorted(sources, key=int)
        if len(hypotheses[index].split()) <= 1.5 * len(sources[index].split()) + 5
    ]
    if not kept:
        raise SystemExit(f"{results}: all translations go in circles; train the baseline longer")
    print(f"distilled pairs: {len(kept)} kept, {len(sources) - len(kept)} left out", flush=True)
    write(destination / "train.en", [sources[index] + "\n" for index in kept])
    write(destination / "train.de", [hypotheses[index] + "\n" for index in kept])


def write(path: Path, lines: List[str]) -> None:
    """Write lines that end in newlines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
