"""Averaging of the last checkpoints of a training."""

from pathlib import Path

from . import commands

N_AVERAGED = 10


def train_and_average(folder: Path, command: list) -> Path:
    """Run a training into a folder unless it has finished; return the average of its checkpoints.

    The average of the last checkpoints is ``averaged.pt`` in the folder.
    """
    averaged = folder / "averaged.pt"
    averaging = [
        *commands.module("fairseq_fastdec", "average-checkpoints"),
        "--inputs", folder, "--num-update-checkpoints", N_AVERAGED, "--output", averaged,
    ]  # fmt: skip
    commands.stage(folder, command, averaging)
    return averaged
