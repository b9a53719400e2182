"""Training commands for the models of the comparison."""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common import en_de
from examples.common.averaging import N_AVERAGED

from .models import Model


@dataclass(frozen=True)
class Training:
    """The length and options of a training."""

    updates: int
    options: list[str]


def training(max_tokens: int, lr: float, warmup: int, updates: int, dropout: float) -> Training:
    """The options of a training for fairseq-train."""
    options = en_de.schedule(max_tokens, lr, warmup, updates) + ["--dropout", str(dropout)]
    return Training(updates, options)


def command(
    data: Path,
    folder: Path,
    recipe: en_de.Recipe,
    model: Model,
    chosen: Training,
    save_every: int,
    begins_with: Optional[Path] = None,
) -> list:
    """The command of fairseq-train, which keeps the checkpoints of the last updates.

    Args:
        begins_with: see :func:`~examples.common.en_de.train_command`.
    """
    kept = (save_every, N_AVERAGED)
    return [
        *en_de.train_command(data, folder, recipe, model.task, *kept, model.seed, begins_with),
        *model.order, *model.training, *chosen.options,
        # Until then, fairseq-train validates and saves at most at the end of epochs.
        "--validate-after-updates", chosen.updates - N_AVERAGED * save_every,
    ]  # fmt: skip
