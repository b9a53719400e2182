"""A table of trainings: seeds, hyperparameters and data, read from the checkpoints."""

import hashlib
from pathlib import Path
from typing import Any

import torch

from . import commands
from .table import shortened, untitled

# Where fairseq's configuration has the columns of the table.
FIELDS = {
    "architecture": ("model", "arch"),
    "token order": ("task", "token_order"),
    "tokens per step": ("task", "tokens_per_step"),
    "seed": ("common", "seed"),
    "tokens per batch": ("dataset", "max_tokens"),
    "learning rate": ("optimization", "lr"),
    "warm-up": ("lr_scheduler", "warmup_updates"),
    "dropout": ("model", "dropout"),
    "loss": ("criterion", "_name"),
    "sub-loss": ("criterion", "sub_loss"),
    "k": ("model", "block_size"),
    "begins with": ("checkpoint", "finetune_from_model"),
    "only the heads": ("model", "freeze_base"),
    "autocast": ("model", "cpu_autocast"),
}


def rows(work: Path) -> list[dict[str, str]]:
    """A row for each finished training in a folder, without empty cells.

    Args:
        work: contains the folders of trainings, at any depth, each with ``checkpoint_last.pt``.
    """
    paths = sorted(work.glob("**/checkpoint_last.pt"))
    return [row_of(path, work) for path in paths if commands.finished(path.parent)]


def row_of(checkpoint: Path, work: Path) -> dict[str, str]:
    """The row of a training."""
    # The checkpoints are this program's own.
    state = torch.load(checkpoint, map_location="cpu", weights_only=False, mmap=True)
    cfg, n_updates = state["cfg"], state["optimizer_history"][-1]["num_updates"]
    row = {"training": str(checkpoint.parent.relative_to(work)), "updates": str(n_updates)}
    for column, (part, name) in FIELDS.items():
        section = cfg[part]
        value = section.get(name) if isinstance(section, dict) else getattr(section, name, None)
        row[column] = shown(value, work)
    row["data"] = checksum(Path(cfg["task"]["data"]))
    return {column: value for column, value in row.items() if value}


def table(rows: list[dict[str, str]]) -> str:
    """The table in Markdown, with the columns that at least one row has."""
    columns = [
        column
        for column in ("training", "updates", *FIELDS, "data")
        if any(column in row for row in rows)
    ]
    return untitled([{column: row.get(column, "") for column in columns} for row in rows])


def shown(value: Any, work: Path) -> str:
    """A value in a cell of the table. Files in the folder are shown by their training."""
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(own, work) for own in value)
    if isinstance(value, str) and Path(value).is_relative_to(work):
        return str(Path(value).parent.relative_to(work))
    return str(value)


def checksum(data: Path) -> str:
    """Of the binarised training text in a folder, and its dictionaries."""
    found = hashlib.sha256()
    for path in sorted([*data.glob("train.*.bin"), *data.glob("dict.*.txt")]):
        found.update(path.read_bytes())
    return shortened(found.hexdigest())
