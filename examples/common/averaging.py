"""The mean of the last checkpoints of a training."""

from pathlib import Path

from . import commands

N_AVERAGED = 10


def train_and_average(folder: Path, command: list) -> None:
    """Run the command of a training into a folder unless it has ended, and average its model."""
    if not commands.finished(folder):
        commands.run(command)
        commands.mark_finished(folder)
    average(folder)


def average(folder: Path) -> None:
    """Write the mean of a model's last checkpoints, ``averaged.pt``, beside them."""
    averaged = folder / "averaged.pt"
    if not averaged.exists():
        commands.run(
            [
                *commands.script("average_checkpoints.py"),
                "--inputs", folder, "--num-update-checkpoints", N_AVERAGED,
                "--output", averaged,
            ]
        )  # fmt: skip
