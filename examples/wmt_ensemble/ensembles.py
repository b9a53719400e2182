"""Ensembles trained on en_de's text, in the layout of the released ones."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from examples.common import commands, en_de


class Member(NamedTuple):
    """A model of an ensemble: the folder in which it is trained, its recipe and its seed."""

    folder: str
    recipe: en_de.Recipe
    seed: int = 1


QUICK = replace(
    en_de.RECIPES["quick"],
    baseline_options=en_de.schedule(800, 2e-3, 200, 800) + ["--dropout", "0"],
)
# Three sizes, trained for about a minute each.
TINY = [
    Member(f"model{number}", replace(QUICK, network=en_de.network(*sizes)))
    for number, sizes in enumerate([(160, 320, 2, 2), (128, 384, 2, 1), (96, 256, 3, 2)], start=1)
]
# The models without heads of ../en_de/block_sizes.py, which can use the same directory.
SMALL = [Member(f"baseline-{seed}", en_de.RECIPES["medium"], seed) for seed in range(1, 6)]


def build(work: Path, members: Sequence[Member]) -> Path:
    """Prepare the text and train the models.

    Returns:
        a directory with ``model1.pt`` and so on, ``dict.LANG.txt``, ``bpecodes`` and ``test.LANG``.
    """
    directory = work / "ensemble"
    if commands.finished(directory):
        return directory
    directory.mkdir(exist_ok=True)
    en_de.prepare(work, members[0].recipe)
    commands.side_by_side(
        [
            partial(en_de.train_baseline, work, member.recipe, member.folder, seed=member.seed)
            for member in members
        ]
    )
    for number, member in enumerate(members, start=1):
        checkpoint = work / member.folder / "checkpoint_last.pt"
        shutil.copy(checkpoint, directory / f"model{number}.pt")
    for language in ("en", "de"):
        shutil.copy(work / "data" / f"dict.{language}.txt", directory)
        shutil.copy(work / f"test.{language}", directory)
    shutil.copy(work / "data" / "bpe.codes", directory / "bpecodes")
    commands.mark_finished(directory)
    return directory
