"""A small ensemble of three sizes, in the layout of the released ones, trained on en_de's text."""

import shutil
from dataclasses import replace
from pathlib import Path

from examples.common import commands, en_de

NETWORKS = (
    en_de.network(160, 320, 2, 2),
    en_de.network(128, 384, 2, 1),
    en_de.network(96, 256, 3, 2),
)
RECIPE = replace(
    en_de.RECIPES["quick"],
    baseline_options=en_de.schedule(800, 2e-3, 200, 800) + ["--dropout", "0"],
)


def build_demo(work: Path) -> Path:
    """Prepare the text and train the models, about a minute each.

    Returns:
        a directory with ``model1.pt`` and so on, ``dict.LANG.txt``, ``bpecodes`` and ``test.LANG``.
    """
    directory = work / "ensemble"
    if commands.finished(directory):
        return directory
    directory.mkdir(exist_ok=True)
    en_de.prepare(work, RECIPE)
    for number, network in enumerate(NETWORKS, start=1):
        name = f"model{number}"
        en_de.train_baseline(work, replace(RECIPE, network=network), name)
        shutil.copy(work / name / "checkpoint_last.pt", directory / f"{name}.pt")
    for language in ("en", "de"):
        shutil.copy(work / "data" / f"dict.{language}.txt", directory)
        shutil.copy(work / f"test.{language}", directory)
    shutil.copy(work / "data" / "bpe.codes", directory / "bpecodes")
    commands.mark_finished(directory)
    return directory
