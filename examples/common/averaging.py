"""Averaging of the last checkpoints of a training."""

from pathlib import Path

from . import commands

N_AVERAGED = 10


def train_and_average(folder: Path, command: list) -> None:
    """Run a training into a folder unless it has finished, and average its checkpoints."""
    if not commands.finished(folder):
        commands.run(command)
        commands.mark_finished(folder)
    average(folder)


def average(folder: Path) -> None:
    """Write the average of a training's last checkpoints to ``averaged.pt`` in its folder."""
    averaged = folder / "averaged.pt"
    if not averaged.exists():
        commands.run(
            [
                *commands.module("fairseq_fastdec", "average-checkpoints"),
                "--inputs", folder, "--num-update-checkpoints", N_AVERAGED,
                "--output", averaged,
            ]
        )  # fmt: skip
