"""Checkpoints whose parameters are changed before a model begins with them."""

from pathlib import Path
from typing import Callable, Dict

import torch

from fairseq_fastdec.tools.atomic_files import replacing

State = Dict[str, torch.Tensor]


def rewrite(source: Path, destination: Path, change: Callable[[State], State]) -> None:
    """Write a checkpoint with other parameters, in fp32, unless it is there."""
    if destination.exists():
        return
    checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    state = {name: value.float() for name, value in checkpoint["model"].items()}
    with replacing(destination) as partial:
        torch.save({**checkpoint, "model": change(state)}, partial)


def deepened(state: State, n_layers: int) -> State:
    """Add decoder layers that change nothing yet: copies of the last whose outputs are 0.

    The model must normalise the inputs of its layers.
    """
    layers = "decoder.layers."
    last = max(int(name.split(".")[2]) for name in state if name.startswith(layers))
    own = [name for name in state if name.startswith(f"{layers}{last}.")]
    for layer in range(last + 1, n_layers):
        for name in own:
            part = name.removeprefix(f"{layers}{last}.")
            is_output = ".out_proj." in f".{part}" or part.startswith("fc2.")
            value = state[name]
            state[f"{layers}{layer}.{part}"] = torch.zeros_like(value) if is_output else value
    return state
