"""Changes the parameters of checkpoints that initialise other models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fairseq_fastdec.data.atomic_files import replacing

State = dict[str, torch.Tensor]

LAYERS = "decoder.layers."


def rewrite(source: Path, destination: Path, change: Callable[[State], State]) -> None:
    """Write a checkpoint with changed parameters, in fp32, unless it exists."""
    if destination.exists():
        return
    checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    state = change({name: value.float() for name, value in checkpoint["model"].items()})
    _record(checkpoint, decoder_layers=1 + _last_layer(state))
    with replacing(destination) as partial:
        torch.save({**checkpoint, "model": state}, partial)


def deepened(state: State, n_layers: int) -> State:
    """Add decoder layers without effect: copies of the last layer with zero outputs.

    This requires pre-norm layers.
    """
    last = _last_layer(state)
    own = [name for name in state if name.startswith(f"{LAYERS}{last}.")]
    for layer in range(last + 1, n_layers):
        for name in own:
            part = name.removeprefix(f"{LAYERS}{last}.")
            is_output = ".out_proj." in f".{part}" or part.startswith("fc2.")
            value = state[name]
            state[f"{LAYERS}{layer}.{part}"] = torch.zeros_like(value) if is_output else value
    return state


def write_first_heads(checkpoint: Path, block_size: int, output: Path) -> None:
    """Write a blockwise model with only the first heads of another.

    Args:
        block_size: k of the new model, at most that of the checkpoint.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model = state["cfg"]["model"]
    n_before, n_kept = model.block_size - 1, block_size - 1
    for name, parameter in state["model"].items():
        if ".heads." in name:
            share = parameter.size(0) // n_before * n_kept
            state["model"][name] = parameter[:share].clone()
    model.block_size = block_size
    with replacing(output) as partial:
        torch.save(state, partial)


def _last_layer(state: State) -> int:
    return max(int(name.split(".")[2]) for name in state if name.startswith(LAYERS))


def _record(checkpoint: dict[str, Any], **options: int) -> None:
    """Update the model options in a checkpoint, which --finetune-from-model compares."""
    for kept in (checkpoint.get("args"), (checkpoint.get("cfg") or {}).get("model")):
        if kept is not None:
            (kept if isinstance(kept, dict) else vars(kept)).update(options)
