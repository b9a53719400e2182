"""Converts models with prediction heads to stock transformers, for other programs."""

from pathlib import Path

import torch


def save_without_heads(checkpoint: Path, path: Path) -> None:
    """Write a ``transformer`` checkpoint with the base of a ``blockwise_transformer``."""
    state = torch.load(checkpoint, weights_only=True)
    state["model"] = {
        name: value.float()
        for name, value in state["model"].items()
        if not name.startswith("decoder.heads.")
    }
    model = state["cfg"]["model"]
    model.arch = model._name = "transformer"
    model.task = "translation"
    torch.save(state, path)
