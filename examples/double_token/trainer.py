"""The training of a model of this comparison."""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from examples.common import en_de
from examples.common.averaging import N_AVERAGED

from .models import Model


@dataclass(frozen=True)
class Training:
    """The length and the rate of a training."""

    updates: int
    options: list[str]


def training(max_tokens: int, lr: float, warmup: int, updates: int, dropout: float) -> Training:
    """Options of fairseq-train."""
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
    """fairseq-train; the checkpoints of the last updates are kept.

    Args:
        begins_with: a checkpoint with its parameters (default: a new model).
    """
    beginning = [] if begins_with is None else ["--finetune-from-model", begins_with]
    return [
        *en_de.train_command(data, folder, recipe, model.task, save_every, N_AVERAGED),
        *model.order, *model.training, *chosen.options, *beginning,
        # Before, fairseq-train validates and saves at most at the ends of epochs.
        "--validate-after-updates", chosen.updates - N_AVERAGED * save_every,
    ]  # fmt: skip
